package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Behaviour is what a member does with a connection.
type Behaviour int

// What a member does.
const (
	// Answer answers a request with a page that holds the member's name, any other line or datagram with the name and that.
	Answer Behaviour = iota
	// HangUp closes each connection at once.
	HangUp
)

// Member is a raw origin on loopback that names itself in its answers.
type Member struct {
	name  string
	place netip.AddrPort

	mu        sync.Mutex
	listener  net.Listener
	datagrams *net.UDPConn // on the same port
	open      map[net.Conn]bool
	accepted  int
	behaviour Behaviour
	delay     time.Duration
	request   string // head of the last one, as it came
	serving   sync.WaitGroup
}

// Start listens; a member that is stopped refuses connections.
func (m *Member) Start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listener != nil {
		return fmt.Errorf("member %s runs already", m.name)
	}
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(m.place))
	if err != nil {
		return fmt.Errorf("member %s: %w", m.name, err)
	}
	datagrams, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(m.place))
	if err != nil {
		listener.Close()
		return fmt.Errorf("member %s: %w", m.name, err)
	}
	m.listener, m.datagrams, m.open = listener, datagrams, map[net.Conn]bool{}
	m.serving.Go(func() { m.serveDatagrams(datagrams) })
	m.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // stopped
			}
			m.serving.Go(func() { m.serve(conn) })
		}
	})
	return nil
}

// Stop closes the listener and all connections, and waits until connections are refused: a program that is just being started may
// hold the listener for a moment more.
func (m *Member) Stop() {
	m.mu.Lock()
	stopped := m.listener == nil
	if m.listener != nil {
		m.listener.Close()
		m.datagrams.Close()
		m.listener = nil
	}
	for conn := range m.open {
		conn.Close()
	}
	m.mu.Unlock()
	m.serving.Wait()
	for deadline := time.Now().Add(ioTime); !stopped && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", m.place.String())
		if err != nil {
			return
		}
		conn.Close()
	}
}

// Behave sets what happens to connections and requests from now on.
func (m *Member) Behave(b Behaviour, delay time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.behaviour, m.delay = b, delay
}

func (m *Member) running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listener != nil
}

// Accepted counts the connections so far.
func (m *Member) Accepted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.accepted
}

// Request returns the head of the last request as it came.
func (m *Member) Request() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.request
}

func (m *Member) serve(conn net.Conn) {
	defer conn.Close()
	m.mu.Lock()
	m.accepted++
	running, behaviour := m.listener != nil, m.behaviour
	if running {
		m.open[conn] = true
	}
	m.mu.Unlock()
	if !running || behaviour == HangUp {
		return
	}
	defer func() {
		m.mu.Lock()
		delete(m.open, conn)
		m.mu.Unlock()
	}()
	for r := bufio.NewReader(conn); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		m.mu.Lock()
		delay := m.delay
		m.mu.Unlock()
		time.Sleep(delay)
		if !strings.Contains(line, " HTTP/1.") {
			if _, err := fmt.Fprintf(conn, "%s %s", m.name, line); err != nil {
				return
			}
		} else if more, err := m.answer(conn, r, line); err != nil || !more {
			return
		}
	}
}

// serveDatagrams answers datagrams until the socket is closed.
func (m *Member) serveDatagrams(c *net.UDPConn) {
	b := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		// A client that went away gets no answer.
		_, _ = c.WriteToUDPAddrPort(append([]byte(m.name+" "), b[:n]...), from)
	}
}

// answer reads the rest of a request and answers it; it reports whether the connection goes on.
func (m *Member) answer(conn net.Conn, r *bufio.Reader, line string) (bool, error) {
	head := message{first: line}
	if err := head.readFields(r); err != nil {
		return false, err
	}
	m.mu.Lock()
	m.request = head.String()
	m.mu.Unlock()
	if _, err := io.CopyN(io.Discard, r, head.length()); err != nil {
		return false, err
	}
	more := strings.HasSuffix(strings.TrimSpace(line), "HTTP/1.1") && !strings.EqualFold(head.field("Connection"), "close")
	body := m.name + "\n"
	lines := ""
	if !more {
		lines = "Connection: close\r\n"
	}
	if line := head.field("Answer"); line != "" {
		lines += line + "\r\n"
	}
	_, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n%sContent-Length: %d\r\n\r\n%s", lines, len(body), body)
	return more, err
}
