package handover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxFiles is how many descriptors one message carries.
	MaxFiles = 250
	// MaxPayload is how many bytes it carries.
	MaxPayload = 32 << 10
)

// Kind says what a message is about. Kinds below 16 are the package's own.
type Kind byte

const (
	kindHello   Kind = iota + 1
	kindRefusal      // the payload says why
)

// Message is what one Send sent.
type Message struct {
	Kind    Kind
	Payload []byte // valid until the next Receive
	Files   []*os.File
}

// Close closes the files of the message.
func (m *Message) Close() {
	for _, f := range m.Files {
		_ = f.Close()
	}
	m.Files = nil
}

// Conn is a connection between two dataplanes. One goroutine may send while another receives.
type Conn struct {
	conn *net.UnixConn
	pid  int
	in   [MaxPayload + 2]byte // one byte more than the longest message
	oob  []byte
}

// PID returns the process at the other end.
func (c *Conn) PID() int { return c.pid }

// Close ends the connection. The other end finds it at its next Receive.
func (c *Conn) Close() error { return c.conn.Close() }

// Within makes sends and receives fail that are not done after d; zero takes the limit away.
func (c *Conn) Within(d time.Duration) {
	at := time.Time{}
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = c.conn.SetDeadline(at) // of a closed connection: the next call says so
}

// Send sends one message. The files stay the caller's.
func (c *Conn) Send(kind Kind, payload []byte, files ...*os.File) error {
	if len(payload) > MaxPayload || len(files) > MaxFiles {
		return fmt.Errorf("a message of %d bytes and %d descriptors is too large", len(payload), len(files))
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			raw, err := f.SyscallConn()
			if err == nil {
				err = raw.Control(func(fd uintptr) { fds[i] = int(fd) })
			}
			if err != nil {
				return err
			}
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err := c.conn.WriteMsgUnix(append([]byte{byte(kind)}, payload...), rights, nil)
	return err
}

// Refuse tells the other end why it gets nothing. Its Receive returns that as a Refused.
func (c *Conn) Refuse(why error) {
	text := why.Error()
	_ = c.Send(kindRefusal, []byte(text[:min(len(text), 1000)])) // who has gone needs no reason
}

// Refused is why the other end refuses.
type Refused string

// Error implements error.
func (r Refused) Error() string { return string(r) }

// errGarbage means that what came is no message.
var errGarbage = errors.New("what came is no message of a dataplane")

// Receive waits for the next message. Its files belong to the caller. The error is io.EOF when the other end has closed.
func (c *Conn) Receive() (Message, error) {
	n, oobn, flags, _, err := c.conn.ReadMsgUnix(c.in[:], c.oob)
	if err != nil {
		return Message{}, err
	}
	m := Message{}
	if m.Files, err = receivedFiles(c.oob[:oobn]); err != nil {
		return Message{}, err
	}
	if n == 0 || n > MaxPayload+1 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		m.Close()
		return Message{}, errGarbage
	}
	if m.Kind, m.Payload = Kind(c.in[0]), c.in[1:n]; m.Kind == kindRefusal {
		m.Close()
		return Message{}, Refused(m.Payload)
	}
	return m, nil
}

func receivedFiles(oob []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // of another kind
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	return files, err
}

// greeting is the hello of this version: who does not say the same is of another.
const greeting = "bigpipe handover 1\n"

// greetingLimit is how long saying who one is may take.
const greetingLimit = 2 * time.Second

// newConn says hello and checks who is at the other end: a process of the same user, of the same version, that is the process
// it says it is. conn is closed if there is an error.
func newConn(conn *net.UnixConn) (*Conn, error) {
	c := &Conn{conn: conn, oob: make([]byte, unix.CmsgSpace(4*(MaxFiles+3)))}
	if err := c.greet(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *Conn) greet() error {
	c.Within(greetingLimit)
	defer c.Within(0)
	peer, err := credentials(c.conn)
	if err != nil {
		return err
	}
	if int(peer.Uid) != os.Geteuid() {
		err := fmt.Errorf("process %d belongs to user %d, this one to user %d", peer.Pid, peer.Uid, os.Geteuid())
		c.Refuse(err)
		return err
	}
	if err := c.Send(kindHello, binary.BigEndian.AppendUint32([]byte(greeting), uint32(os.Getpid()))); err != nil {
		return err
	}
	m, err := c.Receive()
	if err != nil {
		return err
	}
	defer m.Close()
	text := string(m.Payload)
	if m.Kind != kindHello || len(text) != len(greeting)+4 || text[:len(greeting)] != greeting {
		err := errors.New("the other process does not speak this version of the hand-over")
		c.Refuse(err)
		return err
	}
	if c.pid = int(binary.BigEndian.Uint32(m.Payload[len(greeting):])); c.pid != int(peer.Pid) {
		err := fmt.Errorf("process %d says that it is process %d; both must be in one PID namespace", peer.Pid, c.pid)
		c.Refuse(err)
		return err
	}
	return nil
}

// credentials returns who the kernel says is at the other end.
func credentials(conn *net.UnixConn) (peer *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	fault := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(fault, err); err != nil {
		return nil, fmt.Errorf("who is at the other end: %w", err)
	}
	return peer, nil
}
