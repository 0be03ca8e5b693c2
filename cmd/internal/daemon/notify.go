package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifier tells systemd, where it asks for that, how the daemon is.
type Notifier struct {
	log     *slog.Logger
	quiet   chan struct{} // closed by Silence
	once    sync.Once
	beating sync.WaitGroup
}

// Notify says that the daemon is ready and is the main process of its service; then, where systemd watches over that, again and
// again that it lives; and when ctx ends that it stops. Silence ends it.
func Notify(ctx context.Context, log *slog.Logger) *Notifier {
	n := &Notifier{log: log, quiet: make(chan struct{})}
	n.tell(fmt.Sprintf("%s\nMAINPID=%d", daemon.SdNotifyReady, os.Getpid()))
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog of systemd", "error", err)
	}
	n.beating.Go(func() { n.beat(ctx, interval/2) })
	return n
}

func (n *Notifier) beat(ctx context.Context, interval time.Duration) {
	var beats <-chan time.Time
	if interval > 0 {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		beats = ticker.C
	}
	stopping := ctx.Done()
	for {
		select {
		case <-stopping:
			stopping = nil
			n.tell(daemon.SdNotifyStopping)
		case <-beats:
			n.tell(daemon.SdNotifyWatchdog)
		case <-n.quiet:
			return
		}
	}
}

// Silence says nothing from now on: the daemon has ended, or another process is the daemon. Nil is silent.
func (n *Notifier) Silence() {
	if n != nil {
		n.once.Do(func() { close(n.quiet) })
		n.beating.Wait()
	}
}

// Reloading says that another process is about to take over; Ready that this one goes on.
func (n *Notifier) Reloading() {
	n.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Ready says that the daemon goes on after Reloading.
func (n *Notifier) Ready() { n.tell(daemon.SdNotifyReady) }

func (n *Notifier) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		n.log.Warn("cannot tell systemd", "state", state, "error", err)
	}
}
