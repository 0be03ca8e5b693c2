package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
)

// boundClients are clients with a jar each at 192.168.200.10:80, and as many addresses at 192.168.200.20:80.
type boundClients struct {
	t      *testing.T
	site   *e2e.Site
	client *httpClient
	jars   map[string]string // who answered, by jar
	addrs  map[string]string // who answered, by address
}

// ask is one request of each; it returns how many were answered by who answered them before, without another cookie. The first
// time it is none.
func (b *boundClients) ask() (stayed int) {
	b.t.Helper()
	for i := range 100 {
		jar := fmt.Sprint("jar", i)
		r, err := b.client.get("192.168.200.10:80", "/", nil, jar)
		if err != nil || r.status != http.StatusOK {
			b.t.Fatal(r, err)
		}
		if b.jars[jar] == r.pod && len(r.cookies()) == 0 {
			stayed++
		}
		b.jars[jar] = r.pod
		from := fmt.Sprintf("127.0.7.%d", i+1)
		who := b.from(from)
		if b.addrs[from] == who {
			stayed++
		}
		b.addrs[from] = who
	}
	return stayed
}

// from sends a request of an address, and returns who answers.
func (b *boundClients) from(address string) string {
	b.t.Helper()
	place, err := b.site.Place("192.168.200.20:80")
	if err != nil {
		b.t.Fatal(err)
	}
	d := net.Dialer{Timeout: 20 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := d.Dial("tcp", place.String())
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "GET / HTTP/1.0\r\n\r\n")
	r := bufio.NewReader(c)
	reply, err := http.ReadResponse(r, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer reply.Body.Close()
	var who string
	if _, err := fmt.Fscan(reply.Body, &who); err != nil {
		b.t.Fatal(err)
	}
	return who
}

// TestUnrelatedChanges: pain 51: 100 clients with cookies and 100 by their addresses stay where they are while other things are
// configured, a monitor is changed, and a member comes and goes; and when the same file is loaded again.
func TestUnrelatedChanges(t *testing.T) {
	t.Parallel()
	const conf = `monitor alive { use tcp interval 1 timeout 4 }
pool web_pool { lb_mode rr persist_mode cookie cookie_mode insert cookie_expiration 0d 01:00:00
   member 10.1.1.1:80 member 10.1.1.2:80 member 10.1.1.3:80 }
pool simple_pool { lb_mode rr persist_mode simple simple_timeout 60 simple_mask none
   member 10.1.1.1:80 member 10.1.1.2:80 member 10.1.1.3:80 }
vip 192.168.200.10:80 { use pool web_pool }
vip 192.168.200.20:80 { use pool simple_pool }
node 10.1.1.1:80 monitor use alive
node 10.1.1.2:80 monitor use alive
`
	site := newSite(t, conf+"10.1.1.4:80 192.168.200.30:80")
	if err := site.StartMembers("10.1.1.1:80", "10.1.1.2:80", "10.1.1.3:80", "10.1.1.4:80"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	if err := os.WriteFile(filepath.Join(site.Dir, "bigip.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	load := []string{"load", "bigip.conf"}
	output(t, site, load...)
	b := &boundClients{t: t, site: site, client: newHTTPClient(site, false), jars: map[string]string{}, addrs: map[string]string{}}
	defer b.client.close()
	if n := b.ask(); n != 0 {
		t.Errorf("%d clients were bound before", n)
	}
	for _, who := range []map[string]string{b.jars, b.addrs} {
		counts := map[string]int{}
		for _, name := range who {
			counts[name]++
		}
		if len(who) != 100 || len(counts) != 3 || counts["10.1.1.1:80"] < 25 || counts["10.1.1.2:80"] < 25 {
			t.Errorf("clients are not spread: %v", counts)
		}
	}
	for _, change := range [][]string{
		{"pool", "another", "{", "member", "10.1.1.4:80", "}"},
		{"vip", "192.168.200.30:80", "{", "use", "pool", "another", "}"},
		{"monitor", "alive", "modify", "{", "interval", "2", "timeout", "7", "}"},
		{"pool", "web_pool", "add", "{", "member", "10.1.1.4:80", "}"},
		{"pool", "simple_pool", "add", "{", "member", "10.1.1.4:80", "}"},
		{"pool", "web_pool", "delete", "{", "member", "10.1.1.4:80", "}"},
		{"pool", "simple_pool", "delete", "{", "member", "10.1.1.4:80", "}"},
		load, load,
	} {
		output(t, site, change...)
		if n := b.ask(); n != 200 {
			t.Errorf("after %q %d of 200 clients stay", change, n)
		}
	}
}
