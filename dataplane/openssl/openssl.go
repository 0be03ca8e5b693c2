// Package openssl runs the program openssl for tests, as the members and clients of TLS that real sites have.
package openssl

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for the program.
const patience = 20 * time.Second

// Peer makes servers that have one certificate, and clients that keep their sessions in one folder. Everything ends with the test.
type Peer struct {
	t            testing.TB
	program, dir string
}

// New returns a peer. Where the program is not installed the test is skipped, or fails if it must not be.
func New(t testing.TB) *Peer {
	t.Helper()
	program, err := exec.LookPath("openssl")
	if err != nil {
		if os.Getenv("BIGPIPE_NO_SKIP") != "" {
			t.Fatal("openssl is not installed")
		}
		t.Skip("openssl is not installed (package openssl)")
	}
	p := &Peer{t: t, program: program, dir: t.TempDir()}
	out, err := exec.Command(program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN=site", "-keyout", p.file("key.pem"), "-out", p.file("cert.pem")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

func (p *Peer) file(name string) string { return filepath.Join(p.dir, name) }

// Serve starts a server for each address, with options of s_server, and returns when all listen. Each has a cache of its own, so that
// a session is resumed only where it was made.
func (p *Peer) Serve(addrs []string, options ...string) {
	p.t.Helper()
	for _, addr := range addrs {
		args := []string{"s_server", "-accept", addr, "-cert", p.file("cert.pem"), "-key", p.file("key.pem"), "-www", "-quiet"}
		run := exec.Command(p.program, append(args, options...)...)
		run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := run.Start(); err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() {
			_ = run.Process.Kill()
			_ = run.Wait()
		})
	}
	for _, addr := range addrs {
		p.await(addr)
	}
}

func (p *Peer) await(addr string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("openssl does not listen: %v", err)
		}
	}
}

// Client says how to connect.
type Client struct {
	// From is its own address, To where it connects to.
	From, To string
	// Page: it asks for one and reads to the end, as those must that are to get a session of TLS 1.3.
	Page bool
}

// Session is what a client got.
type Session struct {
	// Began is how its connections began, "New" or "Reused" for each; an error of the client follows.
	Began string
	// ID is the session ID of the last one in hex, in lower case; "" if there was none.
	ID string
}

var (
	handshakes = regexp.MustCompile(`(?m)^(New|Reused), `)
	sessionIDs = regexp.MustCompile(`(?m)^    Session-ID: ([0-9A-F]*)$`)
)

// Connect runs a client with options of s_client; files that they name are in the peer's folder.
func (p *Peer) Connect(c Client, options ...string) Session {
	p.t.Helper()
	args := append([]string{"s_client", "-connect", c.To, "-bind", c.From + ":0"}, options...)
	if c.Page {
		args = append(args, "-ign_eof")
	}
	run := exec.Command(p.program, args...)
	run.Dir = p.dir
	if c.Page {
		run.Stdin = strings.NewReader("GET / HTTP/1.0\r\n\r\n")
	}
	timer := time.AfterFunc(patience, func() { _ = run.Process.Kill() })
	defer timer.Stop()
	out, err := run.Output()
	var words []string
	for _, m := range handshakes.FindAllStringSubmatch(string(out), -1) {
		words = append(words, m[1])
	}
	if c.Page && len(words) > 1 { // the page says it too
		words = words[:1]
	}
	if err != nil {
		words = append(words, err.Error())
	}
	s := Session{Began: strings.Join(words, " ")}
	if ids := sessionIDs.FindAllStringSubmatch(string(out), -1); len(ids) > 0 {
		s.ID = strings.ToLower(ids[len(ids)-1][1])
	}
	return s
}

// Reused is how n connections begin that all resume a session.
func Reused(n int) string { return strings.TrimSpace(strings.Repeat("Reused ", n)) }
