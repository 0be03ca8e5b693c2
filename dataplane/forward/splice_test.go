package forward

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// answers is an origin whose answers come one after the other, each in pieces of its own.
func answers(list ...[]string) func(*origin, *peer) {
	return func(o *origin, p *peer) {
		for _, pieces := range list {
			if o.read(p) == "" {
				return
			}
			for _, piece := range pieces {
				p.send(piece)
			}
		}
	}
}

// Bodies of any size and framing pass unchanged, one after the other on one connection, and are counted.
func TestSplicedBodies(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 1<<14)
	sized := func(n int) []string {
		return []string{fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", n), body[:n/2], body[n/2 : n]}
	}
	chunk := func(n int) string { return fmt.Sprintf("%x\r\n%s\r\n", n, body[:n]) }
	chunked := []string{
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(5), chunk(spliceLeast + 1), chunk(100_000) + chunk(1), chunk(200_000) + "0\r\n\r\n",
	}
	sizes := []int{0, 1, shortRead, spliceLeast - 1, spliceLeast, bufferSize, bufferSize + spliceLeast, pipeSize, len(body), 3, len(body)}
	var list [][]string
	total := 0
	for _, n := range sizes {
		list = append(list, sized(n))
	}
	list = append(list, chunked, sized(7), chunked)
	for _, pieces := range list {
		total += len(strings.Join(pieces, ""))
	}
	o := newOrigin(t, "s", "127.0.0.11:0", answers(list...))
	b := httpLab(t, plain(o))
	c := b.dial()
	for i, pieces := range list {
		c.send(get())
		want := strings.Join(pieces, "")
		if got := c.bytes(len(want)); got != want {
			t.Fatalf("response %d: %d bytes, begins with %.100q", i, len(got), got)
		}
	}
	if conns, _ := o.seen(); conns != 1 {
		t.Errorf("%d connections at the member", conns)
	}
	eventually(t, "all is counted", func() bool { return b.set.Counters.Counts().Out == uint64(total) })
}

// What breaks off inside a large body breaks off at the client too: a body that ends with the connection by a reset.
func TestSplicedBodyCut(t *testing.T) {
	body := strings.Repeat("x", 300_000)
	for name, head := range map[string]string{"length": "Content-Length: 1000000\r\n", "chunk": "Transfer-Encoding: chunked\r\n", "close": ""} {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_reset_%v", name, reset), func(t *testing.T) {
				pieces := "HTTP/1.1 200 OK\r\n" + head + "\r\n"
				if name == "chunk" {
					pieces += "f4240\r\n"
				}
				received := make(chan struct{})
				o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
					o.read(p)
					p.send(pieces + body)
					<-received
					if reset {
						p.Conn.(*net.TCPConn).SetLinger(0)
					}
				})
				c := httpLab(t, plain(o)).dial()
				c.send(get())
				c.head()
				if name == "chunk" {
					c.r.ReadString('\n')
				}
				c.bytes(len(body))
				close(received)
				more, err := c.rest()
				if more != "" || name == "close" && reset != (err != nil) {
					t.Errorf("%q and %v", more, err)
				}
			})
		}
	}
}

// Pipes are kept while they are empty, and only so many.
func TestPipes(t *testing.T) {
	p := &pipe{r: -1, w: -1, held: 1}
	p.giveBack() // not empty: closed, not kept
	dropPipes()
	if n := len(pipes.free); n != 0 {
		t.Errorf("%d pipes are kept", n)
	}
	var list []*pipe
	for range pipesKept + 3 {
		p := takePipe()
		if p == nil {
			t.Fatal("no pipe")
		}
		list = append(list, p)
	}
	for _, p := range list {
		p.giveBack()
	}
	if n := len(pipes.free); n != pipesKept {
		t.Errorf("%d pipes are kept", n)
	}
	dropPipes()
}
