package main

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"bigpipe/cmd/internal/daemon"
)

// reloader starts the program anew with each SIGHUP; the new process takes over.
type reloader struct {
	start func() *exec.Cmd
	log   *slog.Logger

	notifier *daemon.Notifier
	signals  chan os.Signal
	stop     chan struct{}
	done     sync.WaitGroup
}

// begin begins to heed the signal.
func (r *reloader) begin(n *daemon.Notifier) {
	r.notifier, r.signals, r.stop = n, make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(r.signals, syscall.SIGHUP)
	r.done.Go(r.run)
}

// end heeds it no more. A process that has taken over goes on.
func (r *reloader) end() {
	if r.signals == nil {
		return
	}
	signal.Stop(r.signals)
	close(r.stop)
	r.done.Wait()
	r.signals = nil
}

func (r *reloader) run() {
	var failed chan error // of the process that is starting; nil: none
	for {
		select {
		case <-r.stop:
			return
		case <-r.signals:
			if failed != nil {
				r.log.Warn("another process is starting already")
				continue
			}
			r.notifier.Reloading()
			failed = r.spawn()
		case err := <-failed:
			r.log.Error("the process that was to take over has ended; this one goes on", "error", err)
			r.notifier.Ready()
			failed = nil
		}
	}
}

// spawn starts a process. The channel gives why it ended; nobody needs to wait for that.
func (r *reloader) spawn() chan error {
	ended := make(chan error, 1)
	cmd := r.start()
	if err := cmd.Start(); err != nil {
		ended <- err
		return ended
	}
	r.log.Info("a process is started to take over", "pid", cmd.Process.Pid)
	go func() { ended <- cmd.Wait() }()
	return ended
}

// successor is the command that starts this program anew, as it was started, to take over from this process. The file may be
// another one by now.
func successor(args []string, stdout, stderr io.Writer) *exec.Cmd {
	if !slices.Contains(args, "--take-over") {
		args = append(slices.Clone(args), "--take-over")
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	for _, v := range os.Environ() { // what is for this process alone
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"}, name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}
