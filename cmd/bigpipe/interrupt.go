package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"bigpipe/grammar"
)

// interruptible returns a context that Ctrl-C and the signals that end a program end. Each command that waits has one, so that
// in a shell Ctrl-C ends the command only, and elsewhere the program can say what became of a change.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// readAll reads a file that may be a pipe: Ctrl-C ends the wait. What waits for the pipe then ends with the program.
func readAll(ctx context.Context, open func() (io.ReadCloser, error)) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		file, err := open()
		if err != nil {
			done <- result{err: err}
			return
		}
		defer file.Close()
		text, err := readText(file)
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return nil, errors.New("interrupted")
	}
}

// readText reads a text, and no more of it than shows that it is longer than what is read: a device never ends.
func readText(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, grammar.MaxSize+1))
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
