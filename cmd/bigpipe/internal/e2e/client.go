package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// ioTime bounds one exchange of a client.
const ioTime = 20 * time.Second

// request is one HTTP request. cookie is the value of its Cookie field, "" for none.
type request struct {
	path, cookie string
}

// client is who sends requests.
type client struct {
	from   string // its own address; "" is any
	header string // a line that each request carries; "" for none
	http10 bool
	jar    jar // keeps cookies between requests; nil keeps none
}

// Reply is what a client got: the name of the node that answered ("-" if none did) and the status.
type Reply struct {
	Node      string
	Status    int
	SetCookie []string // whole lines
}

func (r Reply) String() string {
	return strings.Join(append([]string{fmt.Sprintf("%s %d", r.Node, r.Status)}, r.SetCookie...), "\n") + "\n"
}

// jar holds the cookies of one browser, by name.
type jar map[string]string

func (j jar) cookie() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(j)) {
		pairs = append(pairs, name+"="+j[name])
	}
	return strings.Join(pairs, "; ")
}

func (j jar) keep(lines []string) {
	for _, line := range lines {
		_, value, _ := strings.Cut(line, ": ")
		pair, _, _ := strings.Cut(value, ";")
		name, value, _ := strings.Cut(pair, "=")
		j[name] = value
	}
}

// dial connects over "tcp" or "udp" from an address ("" is any) to a virtual server.
func (s *Site) dial(network, from, virtual string) (net.Conn, error) {
	place, err := s.Place(virtual)
	if err != nil {
		return nil, err
	}
	conn, err := dial(network, from, place)
	if err != nil {
		return nil, fmt.Errorf("virtual server %s: %w", virtual, err)
	}
	return conn, nil
}

// dial connects over "tcp" or "udp" from an address ("" is any). What is read and written afterwards is bounded too.
func dial(network, from string, to netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{Timeout: ioTime}
	if from != "" {
		addr, err := netip.ParseAddr(from)
		if err != nil {
			return nil, err
		}
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0))
		if network == "udp" {
			dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0))
		}
	}
	conn, err := dialer.Dial(network, to.String())
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(ioTime))
}

// Get sends one request on a connection of its own. It may be called by several goroutines at a time.
func Get(place netip.AddrPort) (Reply, error) {
	conn, err := dial("tcp", "", place)
	if err != nil {
		return Reply{}, err
	}
	defer conn.Close()
	return client{}.exchange(conn, bufio.NewReader(conn), request{path: "/"})
}

// get sends requests to a virtual server on one connection. It returns the replies so far with the error.
func (s *Site) get(c client, virtual string, requests ...request) ([]Reply, error) {
	conn, err := s.dial("tcp", c.from, virtual)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var replies []Reply
	r := bufio.NewReader(conn)
	for i, request := range requests {
		reply, err := c.exchange(conn, r, request)
		if err != nil {
			return replies, fmt.Errorf("request %d: %w", i+1, err)
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

// exchange sends one request and reads the reply.
func (c client) exchange(w io.Writer, r *bufio.Reader, request request) (Reply, error) {
	version, cookie := "1.1", request.cookie
	if c.http10 {
		version = "1.0"
	}
	if c.jar != nil {
		cookie = c.jar.cookie()
	}
	head := fmt.Sprintf("GET %s HTTP/%s\r\nHost: www.example.test\r\n", request.path, version)
	if cookie != "" {
		head += "Cookie: " + cookie + "\r\n"
	}
	if c.header != "" {
		head += c.header + "\r\n"
	}
	if _, err := io.WriteString(w, head+"\r\n"); err != nil {
		return Reply{}, err
	}
	answer, status, body, err := readResponse(r)
	if err != nil {
		return Reply{}, err
	}
	reply := Reply{Node: "-", Status: status, SetCookie: answer.all("Set-Cookie")}
	if status == 200 {
		reply.Node = strings.TrimSpace(body)
	}
	if c.jar != nil {
		c.jar.keep(reply.SetCookie)
	}
	return reply, nil
}

// held is a connection that stays open between commands.
type held struct {
	conn   net.Conn
	reader *bufio.Reader
}

// resend is after how long without an answer a datagram is sent again.
const resend = 500 * time.Millisecond

// say sends a line on a connection and returns the answer's line. A datagram is sent again until it is answered.
func (h *held) say(line string) (string, error) {
	_, datagrams := h.conn.(*net.UDPConn)
	for end := time.Now().Add(ioTime); ; {
		deadline := end
		if datagrams {
			deadline = time.Now().Add(resend)
		}
		if err := h.conn.SetDeadline(deadline); err != nil {
			return "", err
		}
		if _, err := fmt.Fprintln(h.conn, line); err != nil {
			return "", err
		}
		answer, err := h.reader.ReadString('\n')
		if errors.Is(err, os.ErrDeadlineExceeded) && deadline.Before(end) {
			continue
		}
		return answer, unexpected(err)
	}
}
