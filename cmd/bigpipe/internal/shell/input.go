package shell

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// input reads the keyboard until it is closed; a read that waits then ends. Readline itself cannot leave off waiting for a key.
type input struct {
	file *os.File
	// closed has two ends of a pipe: closing the second makes the first readable.
	closed [2]int
	once   sync.Once
}

func newInput(file *os.File) (*input, error) {
	in := &input{file: file}
	return in, unix.Pipe2(in.closed[:], unix.O_CLOEXEC)
}

// Read implements io.Reader. An end of input that was typed while a command ran is a null byte; it becomes Ctrl-D again.
func (in *input) Read(b []byte) (int, error) {
	for {
		wait := []unix.PollFd{
			{Fd: int32(in.file.Fd()), Events: unix.POLLIN}, {Fd: int32(in.closed[0]), Events: unix.POLLIN},
		}
		_, err := unix.Poll(wait, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case wait[1].Revents != 0:
			return 0, io.EOF
		}
		n, err := in.file.Read(b)
		for i := range n {
			if b[i] == 0 {
				b[i] = 4
			}
		}
		return n, err
	}
}

// Close ends a read that waits, and all later ones. The file stays open.
func (in *input) Close() error {
	var err error
	in.once.Do(func() { err = unix.Close(in.closed[1]) })
	return err
}

// release frees what Read needs; nothing may read any more.
func (in *input) release() {
	_ = in.Close()
	_ = unix.Close(in.closed[0])
}
