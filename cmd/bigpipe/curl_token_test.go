package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
)

// TestCurlKeepsItsToken: curl with a jar stays at its member, through a change of the configuration, the handing over of the
// dataplane, its restart, and on another dataplane with the same key, while others come.
func TestCurlKeepsItsToken(t *testing.T) {
	newCurl(t, "jar") // before programs are started
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := "global cookie_key k " + key + "\npool web { persist_mode token token_timeout 1h token_lifetime permanent member 10.1.1.1:80 member 10.1.1.2:80 member 10.1.1.3:80 }\n" +
		"virtual 192.168.200.10:80 { use pool web }\n"
	newUnit := func() *e2e.Site {
		site := newSite(t, conf+"10.1.1.4:80")
		if err := site.StartMembers("10.1.1.1:80", "10.1.1.2:80", "10.1.1.3:80"); err != nil {
			t.Fatal(err)
		}
		start(t, site, "dataplane")
		start(t, site, "mgmtd")
		loadText(t, site, conf)
		return site
	}
	site := newUnit()
	to := url(t, site, "192.168.200.10:80")
	c := newCurl(t, "jar")
	c.wants(to, "10.1.1.1:80", true)
	stays := func(what string) {
		t.Helper()
		for range 2 {
			newCurl(t, "other").get(to)
			if body, set := c.get(to); body != "10.1.1.1:80" || len(set) > 0 {
				t.Errorf("%s: answered by %s with %q", what, body, set)
			}
		}
	}
	stays("at once")
	output(t, site, "pool", "web", "add", "{", "member", "10.1.1.4:80", "}")
	stays("with another member")
	if err := site.HandOver(); err != nil {
		t.Fatal(err)
	}
	stays("handed over")
	if err := site.KillDaemon("dataplane"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	place, err := site.Place("192.168.200.10:80")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := e2e.Get(place); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	stays("started again")

	// The jar goes by hosts: another unit is at another address.
	text, err := os.ReadFile(c.jar)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(strings.TrimSpace(string(text)), '\n')+1:]))
	to = url(t, newUnit(), "192.168.200.10:80")
	host, _, _ := strings.Cut(strings.TrimPrefix(to, "http://"), ":")
	c.hold(host, fields[len(fields)-2], fields[len(fields)-1])
	newCurl(t, "other").get(to)
	stays("on another unit")
}

// TestCurlKeepsItsHeader: curl brings back the header that it was given (rule G-6), and stays at its member: also where that is
// disabled, and where it was removed, in processes that never had it (rule G-12). Where nobody answers there another member gives another token.
func TestCurlKeepsItsHeader(t *testing.T) {
	curl := peerProgram(t, named("curl"), "curl")
	const conf = `pool web { persist_mode token token_type header token_name X-Session-ID member 10.1.1.1:80 member 10.1.1.2:80 member 10.1.1.3:80 }
virtual 192.168.200.10:80 { use pool web }
`
	site := newSite(t, conf)
	if err := site.StartMembers("10.1.1.1:80", "10.1.1.2:80", "10.1.1.3:80"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	loadText(t, site, conf)
	to := url(t, site, "192.168.200.10:80")
	// get is curl with a token, "" for none. It returns who answers, and the token that is given.
	get := func(token string) (member, given string) {
		t.Helper()
		args := []string{"--silent", "--show-error", "--max-time", "20", "--noproxy", "*", "--write-out", "%header{x-session-id}"}
		if token != "" {
			args = append(args, "--header", "x-session-id: "+token)
		}
		out, err := exec.Command(curl, append(args, to)...).CombinedOutput()
		if err != nil {
			t.Fatalf("curl: %v\n%s", err, out)
		}
		member, given, _ = strings.Cut(string(out), "\n")
		return member, given
	}
	member, token := get("")
	if member != "10.1.1.1:80" || !strings.HasPrefix(token, "v1.") {
		t.Fatalf("answered by %s with token %q", member, token)
	}
	stays := func(what string) {
		t.Helper()
		for range 3 {
			if other, given := get(""); !strings.HasPrefix(given, "v1.") {
				t.Errorf("%s: a stranger is answered by %s with token %q", what, other, given)
			}
			if at, given := get(token); at != member || given != "" {
				t.Errorf("%s: answered by %s with token %q", what, at, given)
			}
		}
	}
	stays("at once")
	output(t, site, "node", member, "disable")
	stays("disabled")
	output(t, site, "node", member, "enable")
	output(t, site, "pool", "web", "delete", "{", "member", member, "}")
	stays("removed")
	if err := site.HandOver(); err != nil {
		t.Fatal(err)
	}
	stays("removed, then handed over")
	if err := site.KillDaemon("dataplane"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	awaitVirtual(t, site, "192.168.200.10:80")
	stays("removed, then killed")
	if explained := output(t, site, "-n", "pool", "web", "persist", "explain", "client", "127.0.0.1", "token", token); !strings.Contains(explained, "and was removed") {
		t.Errorf("explain says\n%s", explained)
	}

	gone, err := site.Member(member)
	if err != nil {
		t.Fatal(err)
	}
	gone.Stop()
	at, given := get(token)
	if at == member || !strings.HasPrefix(given, "v1.") || given == token {
		t.Errorf("where nobody answers it is answered by %s with token %q", at, given)
	}
	if again, none := get(given); again != at || none != "" {
		t.Errorf("with its new token it is answered by %s with token %q", again, none)
	}
}
