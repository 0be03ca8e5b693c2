package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
)

// curl is a client with a jar, as its own program keeps it.
type curl struct {
	t       *testing.T
	program string
	jar     string // a file
	from    string // its address; "" for any
}

func newCurl(t *testing.T, name string) curl {
	t.Helper()
	dir := t.TempDir()
	return curl{t: t, program: peerProgram(t, named("curl"), "curl"), jar: filepath.Join(dir, name)}
}

// hold puts a cookie for all of a host into the jar, as the program writes it.
func (c curl) hold(host, name, value string) {
	c.t.Helper()
	line := strings.Join([]string{host, "FALSE", "/", "FALSE", "0", name, value}, "\t")
	if err := os.WriteFile(c.jar, []byte("# Netscape HTTP Cookie File\n"+line+"\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// get fetches a page; it returns the body and the Set-Cookie lines.
func (c curl) get(url string) (body string, set []string) {
	c.t.Helper()
	args := []string{"--silent", "--show-error", "--include", "--max-time", "20", "--noproxy", "*", "--cookie", c.jar, "--cookie-jar", c.jar}
	if c.from != "" {
		args = append(args, "--interface", c.from)
	}
	out, err := exec.Command(c.program, append(args, url)...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("curl %s: %v\n%s", url, err, out)
	}
	head, body, _ := strings.Cut(string(out), "\r\n\r\n")
	for line := range strings.SplitSeq(head, "\r\n") {
		if strings.HasPrefix(line, "Set-Cookie:") {
			set = append(set, line)
		}
	}
	return strings.TrimSpace(body), set
}

// wants fetches a page, which the member has to answer: with a cookie if set, without one otherwise.
func (c curl) wants(url, member string, set bool) {
	c.t.Helper()
	body, lines := c.get(url)
	if body != member || set != (len(lines) == 1) || len(lines) > 1 {
		c.t.Errorf("answered by %s with %q, want %s, with a cookie: %t", body, lines, member, set)
	}
}

// url of a virtual server.
func url(t *testing.T, site *e2e.Site, virtual string) string {
	t.Helper()
	place, err := site.Place(virtual)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + place.String()
}

// awaitVirtual waits until a virtual server accepts connections, after a start of the dataplane.
func awaitVirtual(t *testing.T, site *e2e.Site, virtual string) {
	t.Helper()
	place, err := site.Place(virtual)
	for end := time.Now().Add(20 * time.Second); err == nil; time.Sleep(10 * time.Millisecond) {
		if err = accepts(place); err == nil {
			return
		}
		if time.Now().Before(end) {
			err = nil
		}
	}
	t.Fatal(err)
}

// TestBoxCookies: curl with a jar that holds a cookie of the old box reaches the member that it names, and gets no other
// cookie. What names no member leads to a new decision, whose cookie the jar holds then.
func TestBoxCookies(t *testing.T) {
	const other = "10.9.9.9:1"
	vectors := []struct{ rule, value, member string }{
		{"C-1", "1677787402.36895.0000", "10.1.1.100:8080"},
		{"C-1", "1677787402.20480.0000", "10.1.1.100:80"},
		{"C-1", "1701187756.20480.0000", "172.16.102.101:80"},
		{"C-1", "839518730.47873.0000", "10.10.10.50:443"},
		{"C-1", "2064452106.47873.0000", "10.10.13.123:443"},
		{"C-1", "404007104.20480.0000", "192.168.20.24:80"},
		{"C-1", "16908480.16415.0000", "192.0.2.1:8000"},
		{"C-4", "184658624.20480.000", "192.170.1.11:80"},
		{"C-1", "16777226.39173.0000", "10.0.0.1:1433"},
		{"C-2", "vi20010112000000000000000000000030.20480", "[2001:112::30]:80"},
		{"C-3", "rd5o00000000000000000000ffffc0000201o80", "192.0.2.1:80"},
		{"C-3", "rd3o20010112000000000000000000000030o80", "[2001:112::30]:80"},
		// The formula that seed 002 prints: 192.170.1.11 is 192*256^3 + 170*256^2 + 1*256 + 11.
		{"C-4", "3232366859.20480.0000", "192.170.1.11:80"},
		{"pain_10", "1677787402.20480", "10.1.1.100:80"},
		{"C-1", "4294967295.65535.0000", ""},
		{"C-1", "0.0.0000", ""},
		{"C-9", "!dGhpcyBpcyBub3QgYW4gZW5jcnlwdGVkIGNvb2tpZSBvZiBvdXJz", ""},
	}
	var text strings.Builder
	places := map[string]string{} // of members
	for i, v := range vectors {
		member := v.member
		if member == "" {
			member = "10.9.9.8:1"
		}
		fmt.Fprintf(&text, "pool p%d { persist_mode cookie cookie_mode insert member %s member %s }\n", i, other, member)
		fmt.Fprintf(&text, "virtual 192.168.200.10:%d { use pool p%d }\n", 8000+i, i)
		places[member], places[other] = "", ""
	}
	var virtuals strings.Builder
	for i := range vectors {
		fmt.Fprintf(&virtuals, "192.168.200.10:%d\n", 8000+i)
	}
	site := newSite(t, virtuals.String())
	var addresses []string
	for member := range places {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, member) }))
		t.Cleanup(server.Close)
		addresses = append(addresses, member+"="+server.Listener.Addr().(*net.TCPAddr).String())
	}
	if err := site.StartDaemon("dataplane", "--map", strings.Join(addresses, ",")); err != nil {
		t.Fatal(err)
	}
	start(t, site, "mgmtd")
	loadText(t, site, text.String())
	for i, v := range vectors {
		t.Run(v.rule+"_"+v.value, func(t *testing.T) {
			virtual := fmt.Sprintf("192.168.200.10:%d", 8000+i)
			to := url(t, site, virtual)
			host, _, _ := strings.Cut(strings.TrimPrefix(to, "http://"), ":")
			c := newCurl(t, "jar")
			c.hold(host, fmt.Sprintf("BIGipServerp%d", i), v.value)
			if v.member == "" {
				c.wants(to, other, true)
				c.wants(to, other, false)
				return
			}
			for range 3 {
				c.wants(to, v.member, false)
			}
		})
	}
}

// TestCookieKeysChange: keys are changed while clients come and go, and none that came meanwhile loses its member (rule C-9,
// O-T19, pains 22 and 24).
func TestCookieKeysChange(t *testing.T) {
	const conf = "pool web { persist_mode cookie cookie_encryption required member 10.1.1.1:80 member 10.1.1.2:80 member 10.1.1.3:80 }\n" +
		"virtual 192.168.200.10:80 { use pool web }\n"
	site := newSite(t, conf)
	if err := site.StartMembers("10.1.1.1:80", "10.1.1.2:80", "10.1.1.3:80"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	to := url(t, site, "192.168.200.10:80")
	keys := func(names ...string) {
		t.Helper()
		text := conf
		for i := len(names) - 1; i >= 0; i-- {
			path := filepath.Join(site.Dir, names[i]+".key")
			digit := fmt.Sprintf("%02x", names[i][0])
			if err := os.WriteFile(path, []byte(strings.Repeat(digit, 32)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			text = "global cookie_key " + names[i] + " " + path + "\n" + text
		}
		loadText(t, site, text)
	}
	early, steady, late := newCurl(t, "early"), newCurl(t, "steady"), newCurl(t, "late")

	keys("one")
	early.wants(to, "10.1.1.1:80", true)
	steady.wants(to, "10.1.1.2:80", true)
	steady.wants(to, "10.1.1.2:80", false)

	// The new key is told to all units before it encrypts.
	keys("one", "two")
	steady.wants(to, "10.1.1.2:80", false)

	// Who comes now is renewed, once.
	keys("two", "one")
	steady.wants(to, "10.1.1.2:80", true)
	steady.wants(to, "10.1.1.2:80", false)
	late.wants(to, "10.1.1.3:80", true)

	// A dataplane that was started anew reads what the one before wrote.
	if err := site.StopDaemon("dataplane"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	awaitVirtual(t, site, "192.168.200.10:80")
	steady.wants(to, "10.1.1.2:80", false)
	late.wants(to, "10.1.1.3:80", false)

	// Only who stayed away while both keys counted is balanced anew.
	keys("two")
	steady.wants(to, "10.1.1.2:80", false)
	late.wants(to, "10.1.1.3:80", false)
	early.wants(to, "10.1.1.1:80", true) // by its turn: the third decision
	early.wants(to, "10.1.1.1:80", false)
	for _, c := range []curl{early, steady, late} {
		if text, err := os.ReadFile(c.jar); err != nil || strings.Count(string(text), "BIGipServerweb") != 1 || strings.Contains(string(text), ".20480.") {
			t.Errorf("the jar holds %q, %v", text, err)
		}
	}
}

// TestSiteBecomesEncrypted: clients with clear cookies keep their members while cookie_encryption goes from disabled over
// preferred to required (rule C-9, pain 24).
func TestSiteBecomesEncrypted(t *testing.T) {
	const conf = "pool web { persist_mode cookie member 10.1.1.1:80 member 10.1.1.2:80 }\nvirtual 192.168.200.10:80 { use pool web }\n"
	site := newSite(t, conf)
	if err := site.StartMembers("10.1.1.1:80", "10.1.1.2:80"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	loadText(t, site, conf)
	to := url(t, site, "192.168.200.10:80")
	one, two, stayedAway := newCurl(t, "one"), newCurl(t, "two"), newCurl(t, "away")
	one.wants(to, "10.1.1.1:80", true)
	two.wants(to, "10.1.1.2:80", true)
	host, _, _ := strings.Cut(strings.TrimPrefix(to, "http://"), ":")
	stayedAway.hold(host, "BIGipServerweb", "33620234.20480.0000")

	key := filepath.Join(site.Dir, "one.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0f", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, site, "global", "cookie_key", "one", key)
	output(t, site, "pool", "web", "modify", "{", "cookie_encryption", "preferred", "}")
	for _, set := range []bool{true, false} {
		one.wants(to, "10.1.1.1:80", set)
		two.wants(to, "10.1.1.2:80", set)
	}
	output(t, site, "pool", "web", "modify", "{", "cookie_encryption", "required", "}")
	one.wants(to, "10.1.1.1:80", false)
	two.wants(to, "10.1.1.2:80", false)
	stayedAway.wants(to, "10.1.1.1:80", true)
	stayedAway.wants(to, "10.1.1.1:80", false)
}
