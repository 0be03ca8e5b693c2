package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
)

// interruptible returns a context that Ctrl-C ends. A shell makes one for each command, so that Ctrl-C ends the command only.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt)
}

// swallowInterrupts keeps Ctrl-C from ending the program until stop is called.
func swallowInterrupts() (stop func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, os.Interrupt)
	return func() { signal.Stop(ignored) }
}

// checkedWriter remembers the first error of writing, so that a full disk or a closed pipe is not taken for success.
type checkedWriter struct {
	to  io.Writer
	err error
}

func (w *checkedWriter) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	if err != nil && w.err == nil && !errors.Is(err, os.ErrClosed) {
		w.err = err
	}
	return n, err
}
