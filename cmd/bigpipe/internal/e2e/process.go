package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"bigpipe/cmd/internal/process"
)

const (
	// startTime bounds how long a daemon may take until it accepts connections.
	startTime = 30 * time.Second
	// stopTime bounds how long it may take to end when it is asked to.
	stopTime = 20 * time.Second
)

// Start starts cmd so that it is killed when this program ends.
func Start(cmd *exec.Cmd) error { return process.Launch(cmd) }

// startDaemon starts a daemon and waits until its socket accepts connections. What it prints is added to the file log.
func startDaemon(path, name, socket, log string, args ...string) (*process.Process, error) {
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), raceOptions)
	p, err := process.Start(name, cmd, log)
	if err != nil {
		return nil, err
	}
	err = p.Await(context.Background(), startTime, func() error {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// raceOptions keeps programs that are built with the race detector from sleeping for a second at exit.
const raceOptions = "GORACE=atexit_sleep_ms=0"

// fault tells whether the daemon's log shows a crash or a data race.
func fault(log string) error {
	text, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, sign := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
		if i := strings.Index(string(text), sign); i >= 0 {
			return fmt.Errorf("%s:\n%s", log, text[i:])
		}
	}
	return nil
}
