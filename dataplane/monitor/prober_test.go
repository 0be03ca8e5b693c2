package monitor

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// server is a peer on loopback that notes what it is sent, and answers each connection with a text.
type server struct {
	addr netip.AddrPort
	wg   sync.WaitGroup

	mu  sync.Mutex
	got []string
}

// serve begins to answer. Where the answer is whole the connection is closed, unless it ends in "...". Nothing is read where
// there is nothing to wait for.
func serve(t *testing.T, l net.Listener, wait, answer string) *server {
	s := &server{addr: l.Addr().(*net.TCPAddr).AddrPort()}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.one(c, wait, answer) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.wg.Wait()
	})
	return s
}

func (s *server) one(c net.Conn, wait, answer string) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	var got []byte
	for b := make([]byte, 512); !bytes.HasSuffix(got, []byte(wait)); {
		n, err := c.Read(b)
		got = append(got, b[:n]...)
		if err != nil {
			break
		}
	}
	s.mu.Lock()
	s.got = append(s.got, string(got))
	s.mu.Unlock()
	text, open := strings.CutSuffix(answer, "...")
	_, _ = io.WriteString(c, text)
	if open {
		_, _ = io.Copy(io.Discard, c)
	}
}

func (s *server) received() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, "|")
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newTestProber(t *testing.T) Prober {
	t.Helper()
	p, err := NewProber(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// probe carries out one probe.
func probe(t *testing.T, p Prober, spec Spec, patience time.Duration) error {
	t.Helper()
	probe, err := p.Prepare(&spec)
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	probe.Start(time.Now().Add(patience), func(err error) { result <- err })
	select {
	case err := <-result:
		return err
	case <-time.After(patience + 20*time.Second):
		t.Fatal("the probe does not end")
		return nil
	}
}

func wantResult(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("result %q, want %q", got, want)
	}
}

const page = "HTTP/1.0 200 OK\r\nServer: s\r\n\r\nall is well"

// TestTalk: what is sent, byte for byte, and what answers mean.
func TestTalk(t *testing.T) {
	p := newTestProber(t)
	for name, c := range map[string]struct {
		spec                       Spec
		wait, answer, sent, result string
	}{
		"tcp connects only":          {Spec{Kind: TCP}, "", "", "", ""},
		"tcp send takes any answer":  {Spec{Kind: TCP, Send: `ping\r\n`}, "\n", "pong", "ping\r\n", ""},
		"tcp send without an answer": {Spec{Kind: TCP, Send: "ping"}, "ping", "", "ping", "EOF|answer is empty"},
		"tcp recv":                   {Spec{Kind: TCP, Send: `\x41\\r\0\t"`, Recv: "^220 .*ready"}, `"`, "220 is\nready", "A\\r\x00\t\"", ""},
		"tcp recv of a greeting":     {Spec{Kind: TCP, Recv: "^220"}, "", "220 hello...", "", ""},
		"tcp recv differs":           {Spec{Kind: TCP, Send: "x", Recv: "220"}, "x", "421 go away", "x", `the answer does not match "220"`},
		"tcp reverse":                {Spec{Kind: TCP, Send: "x", Recv: "error", Reverse: true}, "x", "fine", "x", ""},
		"tcp reverse, open":          {Spec{Kind: TCP, Send: "x", Recv: "error", Reverse: true}, "x", "fine...", "x", ""},
		"tcp reverse matches":        {Spec{Kind: TCP, Send: "x", Recv: "err.r", Reverse: true}, "x", "an error...", "x", `the answer matches "err.r"`},
		"tcp reverse without recv":   {Spec{Kind: TCP, Send: "x", Reverse: true}, "x", "fine", "x", ""},
		"tcp_echo":                   {Spec{Kind: Echo}, "\n", "bigpipe echo\r\n", "bigpipe echo\r\n", ""},
		"tcp_echo of something else": {Spec{Kind: Echo}, "\n", "bigpipe echo!!", "bigpipe echo\r\n", "not what was sent"},
		"tcp_echo cut short":         {Spec{Kind: Echo}, "\n", "big", "bigpipe echo\r\n", "EOF"},
		"http":                       {Spec{Kind: HTTP, Send: "GET /", Host: "10.1.1.1"}, "\r\n\r\n", page, "GET / HTTP/1.0\r\nHost: 10.1.1.1\r\nConnection: close\r\n\r\n", ""},
		"http login":                 {Spec{Kind: HTTP, Send: "GET /a?b", Host: "h:81", Username: "u", Password: "p"}, "\r\n\r\n", page, "GET /a?b HTTP/1.0\r\nHost: h:81\r\nAuthorization: Basic dTpw\r\nConnection: close\r\n\r\n", ""},
		"http lines of its own":      {Spec{Kind: HTTP, Send: `HEAD / HTTP/1.1\r\nhost: x\r\n`, Host: "h"}, "\r\n\r\n", page, "HEAD / HTTP/1.1\r\nhost: x\r\nConnection: close\r\n\r\n", ""},
		"http as it is":              {Spec{Kind: HTTP, Send: `POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi`, Host: "h"}, "hi", page, "POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi", ""},
		"http kept open":             {Spec{Kind: HTTP, Send: "GET /", Host: "h"}, "\r\n\r\n", page + "...", "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", ""},
		"pain 43: http answers 500":  {Spec{Kind: HTTP, Send: "GET /", Host: "h"}, "\r\n\r\n", "HTTP/1.1 500 Oops\r\n\r\n", "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", "status 500"},
		"http redirects":             {Spec{Kind: HTTP, Send: "GET /", Host: "h"}, "\r\n\r\n", "HTTP/1.1 302 Found\r\n\r\n", "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", ""},
		"http not found":             {Spec{Kind: HTTP, Send: "GET /", Host: "h"}, "\r\n\r\n", "HTTP/1.1 404 No\r\n\r\n", "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", "status 404"},
		"http no answer":             {Spec{Kind: HTTP, Send: "GET /", Host: "h"}, "\r\n\r\n", "", "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", "empty"},
		"http something else":        {Spec{Kind: HTTP, Send: "GET /", Host: "h"}, "\r\n\r\n", "SSH-2.0-x\r\n", "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", "not HTTP"},
		"http recv in the body":      {Spec{Kind: HTTP, Send: "GET /", Host: "h", Recv: "is w.ll$"}, "\r\n\r\n", page, "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", ""},
		"http recv in the status":    {Spec{Kind: HTTP, Send: "GET /", Host: "h", Recv: " 500 "}, "\r\n\r\n", "HTTP/1.1 500 Oops\r\n\r\n", "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", ""},
		"http recv across chunks":    {Spec{Kind: HTTP, Send: "GET /", Host: "h", Recv: "all is well"}, "\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nall \r\n7\r\nis well\r\n0\r\n\r\n", "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", ""},
		"http recv differs":          {Spec{Kind: HTTP, Send: "GET /", Host: "h", Recv: "is bad"}, "\r\n\r\n", page, "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", "does not match"},
		"http reverse":               {Spec{Kind: HTTP, Send: "GET /", Host: "h", Recv: "is bad", Reverse: true}, "\r\n\r\n", page, "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", ""},
		"http reverse, open":         {Spec{Kind: HTTP, Send: "GET /", Host: "h", Recv: "is bad", Reverse: true}, "\r\n\r\n", page + "...", "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", ""},
		"http reverse matches":       {Spec{Kind: HTTP, Send: "GET /", Host: "h", Recv: "is well", Reverse: true}, "\r\n\r\n", page, "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n", "matches"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, listen(t), c.wait, c.answer)
			c.spec.Dial = s.addr
			err := probe(t, p, c.spec, 10*time.Second)
			if first, second, two := strings.Cut(c.result, "|"); two && err != nil && strings.Contains(err.Error(), second) {
				c.result = second
			} else {
				c.result = first
			}
			wantResult(t, err, c.result)
			if got := s.received(); c.spec.Kind != TCP || len(c.sent) > 0 {
				if got != c.sent {
					t.Errorf("sent %q, want %q", got, c.sent)
				}
			}
		})
	}
}

// TestHealer: rules J-16, J-T13: a page is asked for, and a status of 100 to 500 is well.
func TestHealer(t *testing.T) {
	p := newTestProber(t)
	for name, c := range map[string]struct{ answer, result string }{
		"J-T13_500_is_well":   {"HTTP/1.1 500 Oops\r\n\r\n", ""},
		"J-T13_501_is_not":    {"HTTP/1.1 501 No\r\n\r\n", "status 501"},
		"J-16_100_is_well":    {"HTTP/1.1 100 Continue\r\n\r\n...", ""},
		"J-16_200_is_well":    {page, ""},
		"J-16_404_is_well":    {"HTTP/1.1 404 No\r\n\r\n", ""},
		"J-16_599_is_not":     {"HTTP/1.1 599 x\r\n\r\n", "status 599"},
		"J-16_nothing_is_not": {"", "empty"},
		"J-16_no_HTTP_is_not": {"+OK\r\n", "not HTTP"},
		"J-16_silence_is_not": {"...", "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, listen(t), "\r\n\r\n", c.answer)
			patience := 10 * time.Second
			if c.answer == "..." {
				patience = 200 * time.Millisecond
			}
			spec := Spec{Kind: Healer, Dial: s.addr, Send: "GET /", Host: "i1:8080"}
			wantResult(t, probe(t, p, spec, patience), c.result)
			if got, want := s.received(), "GET / HTTP/1.0\r\nHost: i1:8080\r\nConnection: close\r\n\r\n"; got != want {
				t.Errorf("sent %q, want %q", got, want)
			}
		})
	}
}

// TestSilence: a peer that says nothing costs the whole time of the probe.
func TestSilence(t *testing.T) {
	p := newTestProber(t)
	for _, kind := range []Kind{TCP, Echo, HTTP, HTTPS} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			s := serve(t, listen(t), "", "...")
			wantResult(t, probe(t, p, Spec{Kind: kind, Dial: s.addr, Send: "GET /", Recv: "x"}, 300*time.Millisecond), "no answer in time")
		})
	}
}

// TestRefused: nobody listens.
func TestRefused(t *testing.T) {
	p := newTestProber(t)
	l := listen(t)
	l.Close()
	to := l.Addr().(*net.TCPAddr).AddrPort()
	for _, kind := range []Kind{TCP, Echo, HTTP, HTTPS, UDP} {
		wantResult(t, probe(t, p, Spec{Kind: kind, Dial: to, Send: "x"}, 5*time.Second), "connection refused")
	}
	wantResult(t, probe(t, p, Spec{Kind: TCP, Dial: to}, 5*time.Second), "connection refused")
}

// TestConnect: a plain connect, over IPv4 and IPv6, and to where nothing answers.
func TestConnect(t *testing.T) {
	p := newTestProber(t)
	s := serve(t, listen(t), "", "...")
	wantResult(t, probe(t, p, Spec{Kind: TCP, Dial: s.addr}, 5*time.Second), "")
	t.Run("IPv6", func(t *testing.T) {
		l, err := net.Listen("tcp", "[::1]:0")
		if err != nil {
			t.Fatalf("this machine has no ::1: %v", err)
		}
		wantResult(t, probe(t, p, Spec{Kind: TCP, Dial: serve(t, l, "", "...").addr}, 5*time.Second), "")
	})
	t.Run("full", func(t *testing.T) {
		to := full(t)
		wantResult(t, probe(t, p, Spec{Kind: TCP, Dial: to}, 300*time.Millisecond), "no answer in time")
	})
}

// full returns an address that answers no connect: what listens there has as many waiting as it takes.
func full(t *testing.T) netip.AddrPort {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(name.(*syscall.SockaddrInet4).Port))
	for range 8 {
		c, err := net.DialTimeout("tcp", to.String(), 100*time.Millisecond)
		if err != nil {
			return to
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("it takes any number of connections")
	return to
}

// TestClose: probes in progress end with the prober.
func TestClose(t *testing.T) {
	p, err := NewProber(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, listen(t), "", "...")
	results := make(chan error, 2)
	for _, spec := range []Spec{{Kind: TCP, Dial: s.addr, Recv: "x"}, {Kind: TCP, Dial: full(t)}} {
		one, err := p.Prepare(&spec)
		if err != nil {
			t.Fatal(err)
		}
		one.Start(time.Now().Add(time.Hour), func(err error) { results <- err })
	}
	p.Close()
	for range 2 {
		if err := <-results; err == nil {
			t.Error("it succeeded")
		}
	}
}

// TestUDP: a datagram and its answer.
func TestUDP(t *testing.T) {
	p := newTestProber(t)
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var answering sync.WaitGroup
	answering.Go(func() {
		for b := make([]byte, 512); ; {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if string(b[:n]) != "silence" {
				_, _ = c.WriteToUDPAddrPort(append([]byte("got "), b[:n]...), from)
			}
		}
	})
	t.Cleanup(func() {
		c.Close()
		answering.Wait()
	})
	to := c.LocalAddr().(*net.UDPAddr).AddrPort()
	for name, c := range map[string]struct {
		spec   Spec
		result string
	}{
		"any answer":              {Spec{Send: "x"}, ""},
		"recv":                    {Spec{Send: `a\n`, Recv: "^got a\n$"}, ""},
		"recv differs":            {Spec{Send: "x", Recv: "y"}, "does not match"},
		"reverse":                 {Spec{Send: "x", Recv: "y", Reverse: true}, ""},
		"nobody objects":          {Spec{Send: "silence"}, ""},
		"an answer was asked for": {Spec{Send: "silence", Recv: "."}, "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.spec.Kind, c.spec.Dial = UDP, to
			wantResult(t, probe(t, p, c.spec, 2*time.Second), c.result)
		})
	}
}

// TestHTTPS: the certificate does not matter.
func TestHTTPS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(-time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	l := tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}})
	s := serve(t, l, "\r\n\r\n", page)
	p := newTestProber(t)
	wantResult(t, probe(t, p, Spec{Kind: HTTPS, Dial: s.addr, Send: "GET /", Host: "h", Recv: "well"}, 10*time.Second), "")
	if got, want := s.received(), "GET / HTTP/1.0\r\nHost: h\r\nConnection: close\r\n\r\n"; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	plain := serve(t, listen(t), "", "HTTP/1.0 400 plain\r\n\r\n")
	wantResult(t, probe(t, p, Spec{Kind: HTTPS, Dial: plain.addr, Send: "GET /"}, 10*time.Second), "tls")
}

// TestPing: ICMP over IPv4 and IPv6.
func TestPing(t *testing.T) {
	if err := pings(); err != nil {
		if os.Getenv("BIGPIPE_NO_SKIP") != "" {
			t.Fatalf("icmp is not permitted here: %v", err)
		}
		t.Skipf("icmp is not permitted here: %v", err)
	}
	p := newTestProber(t)
	for _, to := range []string{"127.0.0.1", "127.9.8.7", "::1"} {
		wantResult(t, probe(t, p, Spec{Kind: ICMP, Dial: at(to)}, 10*time.Second), "")
	}
}

// TestPingBytes: an echo request as RFC 792 has it.
func TestPingBytes(t *testing.T) {
	m := newPing(false, 7)
	if m[0] != 8 || m[1] != 0 || len(m) != 24 || m[7] != 7 {
		t.Errorf("got % x", m)
	}
	if checksum(m) != 0 {
		t.Errorf("the checksum does not cancel out: % x", m)
	}
	if got := checksum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); got != ^uint16(0xddf2) { // the example of RFC 1071
		t.Errorf("checksum %x", got)
	}
	if m := newPing(true, 7); m[0] != 128 || m[2] != 0 || m[3] != 0 {
		t.Errorf("IPv6: got % x", m)
	}
}

// script writes a program.
func script(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "check")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return path
}

// TestExternal: a program gets the address and the port; any output means up; it is killed with all that it started.
func TestExternal(t *testing.T) {
	p := newTestProber(t)
	ask := func(text string, patience time.Duration, args ...string) error {
		spec := Spec{Kind: External, Dial: at("127.0.0.1:80"), Program: script(t, text), Args: strings.Join(args, "\x00")}
		return probe(t, p, spec, patience)
	}
	out := filepath.Join(t.TempDir(), "out")
	wantResult(t, ask(`printf '%s|' "$@" >"$3"; echo up`, 10*time.Second, out, "two words"), "")
	got, _ := os.ReadFile(out)
	if want := "127.0.0.1|80|" + out + "|two words|"; string(got) != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
	wantResult(t, ask("exit 0", 10*time.Second), "says nothing")
	wantResult(t, ask("echo trouble >&2; exit 3", 10*time.Second), "exit status 3")
	wantResult(t, ask("echo up; exit 1", 10*time.Second), "")
	spec := Spec{Kind: External, Dial: at("127.0.0.1:80"), Program: "/does/not/exist"}
	wantResult(t, probe(t, p, spec, time.Second), "no such file")

	pid := filepath.Join(t.TempDir(), "pid")
	wantResult(t, ask(`sleep 100 & echo $! >"$3"; wait`, 500*time.Millisecond, pid), "no answer in time")
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Sscan(string(text), &child); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); alive(child); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d was left behind", child)
		}
	}
}

// TestExternalWeight: what a program says first may be a number: the weight of the node.
func TestExternalWeight(t *testing.T) {
	p := newTestProber(t)
	for said, want := range map[string]uint32{
		"42": 42, "42\n": 42, " 7 busy": 7, "0": 1, "65536": 65535, "99999999999999999999": 0, "-1": 0, "1.5": 0, "up": 0, "up 5": 0, "": 0,
		"5up": 0, "1\n2": 1, strings.Repeat("1", 100): 0,
	} {
		spec := Spec{Kind: External, Dial: at("127.0.0.1:80"), Program: script(t, "printf -- '"+said+"'")}
		a, err := p.Prepare(&spec)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		a.Start(time.Now().Add(10*time.Second), func(err error) { ended <- err })
		if err := <-ended; (err != nil) != (said == "") {
			t.Errorf("%q: %v", said, err)
		}
		if got := a.(Weigher).Weight(); got != want {
			t.Errorf("%q is weight %d, want %d", said, got, want)
		}
	}
}

// alive reports whether a process runs; one that has ended and was not waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// TestUnfit: what cannot be prepared says why.
func TestUnfit(t *testing.T) {
	p := newTestProber(t)
	if _, err := p.Prepare(&Spec{Kind: TCP, Recv: "("}); err == nil {
		t.Error("an unreadable regular expression is taken")
	}
}
