package dataplane

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

// openssl are real members and clients of TLS. Each server has a cache of its own, so that a session is resumed only where it
// was made.
type openssl struct {
	*site
	dir     string
	servers []string // addresses
}

// newOpenSSL starts servers behind the virtual server web.
func newOpenSSL(t *testing.T, servers int, change func(*pb.Pool), options ...string) *openssl {
	t.Helper()
	program, err := exec.LookPath("openssl")
	if err != nil {
		if os.Getenv("BIGPIPE_NO_SKIP") != "" {
			t.Fatal("openssl is not installed")
		}
		t.Skip("openssl is not installed (package openssl)")
	}
	o := &openssl{site: newSite(t, "", mapped), dir: t.TempDir()}
	cert, key := filepath.Join(o.dir, "cert.pem"), filepath.Join(o.dir, "key.pem")
	out, err := exec.Command(program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN=site", "-keyout", key, "-out", cert).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for range servers {
		addr := unusedAddress(t)
		run := exec.Command(program, append([]string{"s_server", "-accept", addr, "-cert", cert, "-key", key, "-www", "-quiet"}, options...)...)
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = run.Process.Kill()
			_ = run.Wait()
		})
		o.servers = append(o.servers, addr)
	}
	for _, addr := range o.servers {
		eventually(t, "openssl listens", func() bool {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
	p := plainPool("p", o.servers...)
	p.GetPool().PersistMode = pb.PersistMode_PERSIST_MODE_SSL.Enum()
	if change != nil {
		change(p.GetPool())
	}
	o.apply(p, virtualServer(web, "p"))
	return o
}

// unusedAddress is one that nobody listens on.
func unusedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

var handshakes = regexp.MustCompile(`(?m)^(New|Reused), `)

// connect runs a client from an address, and returns how its connections began, a word each. With a page it asks for one and
// reads to the end, as those must that are to get a session of TLS 1.3.
func (o *openssl) connect(client string, page bool, options ...string) string {
	o.t.Helper()
	addr, ok := o.engine.Bound(web)
	if !ok {
		o.t.Fatal("nobody listens")
	}
	args := append([]string{"s_client", "-connect", addr.String(), "-bind", client + ":0"}, options...)
	if page {
		args = append(args, "-ign_eof")
	}
	run := exec.Command("openssl", args...)
	run.Dir = o.dir
	if page {
		run.Stdin = strings.NewReader("GET / HTTP/1.0\r\n\r\n")
	}
	timer := time.AfterFunc(patience, func() { _ = run.Process.Kill() })
	defer timer.Stop()
	out, err := run.Output()
	var words []string
	for _, m := range handshakes.FindAllStringSubmatch(string(out), -1) {
		words = append(words, m[1])
	}
	if err != nil {
		words = append(words, err.Error())
	}
	if page && len(words) > 1 { // the page says it too
		words = words[:1]
	}
	return strings.Join(words, " ")
}

// totals prints how many connections each member has had.
func (o *openssl) totals() string {
	var list []string
	for _, m := range o.statistics("p").GetPools()[0].GetMembers() {
		list = append(list, fmt.Sprint(m.GetConnections().GetTotal()))
	}
	return strings.Join(list, " ")
}

func reused(n int) string { return strings.TrimSpace(strings.Repeat("Reused ", n)) }

// TestOpenSSL: rules with openssl as client and server.
func TestOpenSSL(t *testing.T) {
	const first, again = "127.0.0.1", "127.0.0.9"
	t.Run("A-T1_A-T2_session_IDs", func(t *testing.T) {
		o := newOpenSSL(t, 3, nil, "-tls1_2", "-no_ticket")
		for i := range 3 {
			want(t, o.connect(first, false, "-tls1_2", "-no_ticket", "-sess_out", fmt.Sprintf("s%d", i)), "New")
		}
		want(t, o.totals(), "1 1 1")
		for range 2 { // six connections each
			for i := range 3 {
				for _, client := range []string{first, again} {
					want(t, o.connect(client, false, "-tls1_2", "-no_ticket", "-reconnect", "-sess_in", fmt.Sprintf("s%d", i)), reused(6))
				}
			}
		}
		want(t, o.totals(), "25 25 25")
	})
	t.Run("A-4_TLS_1.3_client_of_TLS_1.2_servers", func(t *testing.T) { // its invented IDs are none
		o := newOpenSSL(t, 3, nil, "-tls1_2", "-no_ticket")
		want(t, o.connect(first, true, "-sess_out", "s"), "New")
		for range 4 {
			want(t, o.connect(again, true, "-sess_in", "s"), "Reused")
		}
		if n := strings.Count(o.dump(), "\n"); n != 1 {
			t.Errorf("%d records:\n%s", n, o.dump())
		}
	})
	t.Run("A-T16_TLS_1.3", func(t *testing.T) { // pain 88
		o := newOpenSSL(t, 3, nil, "-tls1_3")
		want(t, o.connect(first, true, "-sess_out", "s"), "New")
		want(t, o.connect(first, true, "-sess_in", "s"), "New")
		want(t, o.connect(first, true, "-sess_in", "s"), "New")
		want(t, o.totals(), "1 1 1")
		want(t, o.dump(), "")
	})
	t.Run("pain_88_fallback", func(t *testing.T) {
		o := newOpenSSL(t, 3, func(p *pb.Pool) { p.SslFallback = pb.SslFallback_SSL_FALLBACK_SIMPLE.Enum() }, "-tls1_3")
		want(t, o.connect(first, true, "-sess_out", "s"), "New")
		for range 5 {
			want(t, o.connect(first, true, "-sess_in", "s", "-sess_out", "s"), "Reused")
		}
		want(t, o.totals(), "6 0 0")
		want(t, o.dump(), fmt.Sprintf("simple %s %s %s\n", first, web, o.servers[0]))
	})
	t.Run("A-T17_pain_89_tickets", func(t *testing.T) {
		o := newOpenSSL(t, 3, nil, "-tls1_2")
		want(t, o.connect(again, true, "-tls1_2", "-sess_out", "other"), "New")
		want(t, o.connect(first, true, "-tls1_2", "-sess_out", "s"), "New")
		for range 5 {
			want(t, o.connect(again, true, "-tls1_2", "-sess_in", "s", "-sess_out", "s"), "Reused")
		}
		want(t, o.connect(first, false, "-tls1_2", "-reconnect", "-sess_in", "s"), reused(6))
		want(t, o.totals(), "1 12 0")
	})
	t.Run("A-T17_tickets_ignored", func(t *testing.T) {
		o := newOpenSSL(t, 3, func(p *pb.Pool) { p.SslTickets = pb.SslTickets_SSL_TICKETS_IGNORE.Enum() }, "-tls1_2")
		want(t, o.connect(first, true, "-tls1_2", "-sess_out", "s"), "New")
		want(t, o.connect(first, true, "-tls1_2", "-sess_in", "s"), "New")
		want(t, o.connect(first, true, "-tls1_2", "-sess_in", "s"), "New")
		want(t, o.totals(), "1 1 1")
		want(t, o.dump(), "")
	})
}
