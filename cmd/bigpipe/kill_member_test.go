package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
	"bigpipe/cmd/internal/process"
)

// memberVariable has the test program be a member that listens on an address, and nothing else.
const memberVariable = "BIGPIPE_TEST_MEMBER"

// serveMember answers each request after a while with the address that it listens on. It returns when it cannot go on.
func serveMember(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			for r := bufio.NewReader(c); ; {
				q, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, q.Body); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
				if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Member: %s\r\nContent-Length: 3\r\n\r\nok\n", address); err != nil {
					return
				}
			}
		}()
	}
}

// startMember starts the program of a member, and waits until it accepts connections.
func startMember(t *testing.T, site *e2e.Site, address string) *process.Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), memberVariable+"="+address)
	p, err := process.Start("member", cmd, filepath.Join(site.Dir, "member.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	err = p.Await(t.Context(), 20*time.Second, func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// served is one request of a client, and what became of it.
type served struct {
	client     int
	method     string
	begin, end time.Time
	member     string // "" for a request that failed
	fault      string
}

// visitor sends requests on a connection that it keeps, as long as that goes on.
type visitor struct {
	number int
	to     string
	conn   net.Conn
	reader *bufio.Reader
}

func (v *visitor) send(method string) served {
	s := served{client: v.number, method: method, begin: time.Now()}
	err := v.exchange(&s)
	s.end = time.Now()
	if err != nil {
		s.fault = err.Error()
		v.close()
	}
	return s
}

func (v *visitor) exchange(s *served) error {
	if v.conn == nil {
		d := net.Dialer{Timeout: 20 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 8, 0, byte(v.number+1))}}
		c, err := d.Dial("tcp", v.to)
		if err != nil {
			return err
		}
		v.conn, v.reader = c, bufio.NewReader(c)
	}
	if err := v.conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(v.conn, "%s / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab", s.method); err != nil {
		return err
	}
	reply, err := http.ReadResponse(v.reader, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, reply.Body); err != nil {
		return err
	}
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", reply.StatusCode)
	}
	s.member = reply.Header.Get("X-Member")
	if reply.Close {
		v.close()
	}
	return nil
}

func (v *visitor) close() {
	if v.conn != nil {
		v.conn.Close()
		v.conn = nil
	}
}

// death is when a member was killed: it ran before begin, and did not run after end.
type death struct {
	member     string
	begin, end time.Time
}

// TestKilledMember kills members with SIGKILL under 500 requests a second. Requests that fail were in flight on that member then, and
// cannot be repeated; the records move, and stay when it runs again.
func TestKilledMember(t *testing.T) {
	const (
		visitors = 25
		every    = 50 * time.Millisecond // a visitor's requests
	)
	members := []string{"10.1.1.1:80", "10.1.1.2:80", "10.1.1.3:80"}
	site := newSite(t, "192.168.200.10:80 "+strings.Join(members, " "))
	programs, places := map[string]*process.Process{}, map[string]string{}
	for _, m := range members {
		place, err := site.Place(m)
		if err != nil {
			t.Fatal(err)
		}
		places[m] = place.String()
		programs[m] = startMember(t, site, place.String())
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	output(t, site, "pool web { persist_mode simple simple_timeout 300 member "+strings.Join(members, " member ")+" }")
	output(t, site, "virtual 192.168.200.10:80 { use pool web http enable }")
	to, err := site.Place("192.168.200.10:80")
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	histories := make([][]served, visitors)
	for i := range visitors {
		running.Go(func() {
			v := visitor{number: i, to: to.String()}
			defer v.close()
			next := time.Now().Add(every * time.Duration(i) / visitors)
			for n := 0; ctx.Err() == nil; n++ {
				time.Sleep(time.Until(next))
				next = next.Add(every)
				if late := time.Now(); next.Before(late) { // a machine that cannot follow is asked less
					next = late
				}
				histories[i] = append(histories[i], v.send([]string{"GET", "POST", "PUT", "POST"}[(n+i)%4]))
			}
		})
	}
	var deaths []death
	for _, m := range members {
		time.Sleep(700 * time.Millisecond)
		d := death{member: places[m], begin: time.Now()}
		if err := programs[m].Kill(); err != nil {
			t.Error(err)
		}
		d.end = time.Now()
		deaths = append(deaths, d)
		time.Sleep(500 * time.Millisecond)
		if dump := output(t, site, "-o", "json", "pool", "web", "persist", "dump", "node", m); strings.Contains(dump, `"node"`) {
			t.Errorf("half a second after the end of %s it has records: %s", m, dump)
		}
		programs[m] = startMember(t, site, places[m])
		time.Sleep(300 * time.Millisecond)
		if dump := output(t, site, "-o", "json", "pool", "web", "persist", "dump", "node", m); strings.Contains(dump, `"node"`) {
			t.Errorf("%s runs again and has records: %s", m, dump)
		}
	}
	cancel()
	running.Wait()

	count, inFlight, failed := 0, 0, 0
	for _, history := range histories {
		count += len(history)
		f, n := judge(t, history, deaths)
		failed, inFlight = failed+f, inFlight+n
	}
	t.Logf("%d requests, %d in flight on a member that was killed, %d failed", count, inFlight, failed)
	if inFlight == 0 {
		t.Error("no request was in flight on a member that was killed")
	}
	if count < 10*visitors {
		t.Errorf("only %d requests were sent", count)
	}
}

// judge checks one visitor's requests against the deaths. It returns how many failed, and how many were in flight on a member that
// was killed meanwhile.
func judge(t *testing.T, history []served, deaths []death) (failed, inFlight int) {
	t.Helper()
	at := "" // where the visitor belongs
	for _, s := range history {
		var hit *death
		for i := range deaths {
			if d := &deaths[i]; d.member == at && s.begin.Before(d.end) && s.end.After(d.begin) {
				hit = d
			}
		}
		if hit != nil {
			inFlight++
		}
		switch {
		case s.fault != "" && hit == nil:
			t.Errorf("visitor %d: %s failed, and was not in flight on a member that was killed: %s", s.client, s.method, s.fault)
		case s.fault != "" && s.method != "POST":
			t.Errorf("visitor %d: %s is idempotent and failed after %v; its member had ended after %v: %s",
				s.client, s.method, s.end.Sub(s.begin), hit.end.Sub(hit.begin), s.fault)
		case s.fault != "":
			failed++
		case at != "" && s.member != at:
			died := false
			for _, d := range deaths {
				died = died || d.member == at && d.begin.Before(s.end)
			}
			if !died {
				t.Errorf("visitor %d moved from %s, which was alive", s.client, at)
			}
			at = s.member
		default:
			at = s.member
		}
	}
	return failed, inFlight
}
