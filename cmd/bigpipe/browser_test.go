package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bigpipe/cmd/bigpipe/internal/browser"
	"bigpipe/cmd/bigpipe/internal/e2e"
)

// The members of the tests with browsers and what names them.
var (
	webMembers = []string{"10.1.1.1:80", "10.1.1.2:80", "10.1.1.3:80"}
	webValues  = map[string]string{
		"10.1.1.1:80": "16843018.20480.0000", "10.1.1.2:80": "33620234.20480.0000", "10.1.1.3:80": "50397450.20480.0000",
	}
)

// webSite starts web servers of a kind and a virtual server for them, 192.168.200.10:80. The words are more of the pool and of
// the virtual server; lines gives what a server says in each answer.
func webSite(t *testing.T, kind, poolWords, virtualWords string, lines func(member string) string) (*e2e.Site, []*webServer) {
	t.Helper()
	text := fmt.Sprintf("pool web {\n%s\nmember %s\n}\nvirtual 192.168.200.10:80 {\nuse pool web\n%s\n}\n",
		poolWords, strings.Join(webMembers, "\nmember "), virtualWords)
	site := newSite(t, text)
	var servers []*webServer
	for _, member := range webMembers {
		more := ""
		if lines != nil {
			more = lines(member)
		}
		servers = append(servers, startWebServer(t, site, kind, member, more))
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	loadText(t, site, text)
	return site, servers
}

// loadText loads a configuration.
func loadText(t *testing.T, site *e2e.Site, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(site.Dir, "bigip.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, site, "-f", "bigip.conf")
}

// startBrowser starts a browser that is ended by the test.
func startBrowser(t *testing.T, profile string, hosts map[string]netip.Addr) *browser.Browser {
	t.Helper()
	b, err := browser.Start(peerProgram(t, browser.Find, "chromium-headless-shell"), profile, hosts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// profileDir is a folder for profiles. What a browser leaves behind may still be written when it is removed.
func profileDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bigpipe-profile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func zeros(n int) string { return strings.Repeat("0", n) }

// TestBrowserKeepsItsMember: a browser loads pages with their parts, and asks twelve things at once; all is answered by the
// member of its first request, also after the browser was started anew. Others are balanced meanwhile.
func TestBrowserKeepsItsMember(t *testing.T) {
	const (
		hour           = "cookie_expiration 0d 01:00:00\n"
		permanentToken = "persist_mode token\ntoken_name shop\ntoken_lifetime permanent\ntoken_timeout 1h"
	)
	tests := []struct {
		name, kind, pool, virtual string
		lines                     func(member string) string
		cookie                    func(member string, c browser.Cookie) bool // nil: ours of insert
	}{
		{"insert", "apache", hour + "persist_mode cookie\ncookie_mode insert", "", nil, nil},
		{"insert_oneconnect", "apache", hour + "persist_mode cookie\ncookie_mode insert", "oneconnect enable", nil, nil},
		{"C-10_rewrite_of_what_apache_sends", "apache", hour + "persist_mode cookie\ncookie_mode rewrite", "", func(string) string {
			return "Header add Set-Cookie BIGipCookie=" + zeros(120) // as seed 002 says
		}, nil},
		{"C-10_rewrite_of_what_nginx_sends", "nginx", hour + "persist_mode cookie\ncookie_mode rewrite", "oneconnect enable", func(string) string {
			return `add_header Set-Cookie "BIGipCookie=` + zeros(120) + `"; add_header Cache-Control no-store;`
		}, nil},
		{"C-11_passive_by_the_recipe_of_seed_002", "apache", "persist_mode cookie\ncookie_mode passive", "", func(member string) string {
			return `Header add Set-Cookie: "BIGipServer web=` + strings.TrimSuffix(webValues[member], "0") + `; expires=Sat, 19-Aug-2090 19:35:45 GMT; path=/"`
		}, isPassive},
		{"G-4_token", "nginx", permanentToken, "", nil, isToken},
		{"O-14_token_oneconnect", "apache", permanentToken, "oneconnect enable", nil, isToken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			peerProgram(t, browser.Find, "chromium-headless-shell")
			t.Parallel()
			site, servers := webSite(t, tt.kind, tt.pool, tt.virtual, tt.lines)
			place, err := site.Place("192.168.200.10:80")
			if err != nil {
				t.Fatal(err)
			}
			url := "http://" + place.String()
			profile := profileDir(t)
			b := startBrowser(t, profile, nil)
			defer func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}()
			member, mostConns, kept := "", 0, browser.Cookie{}
			for i := range 4 {
				if i == 3 {
					if err := b.Close(); err != nil {
						t.Fatal(err)
					}
					b = startBrowser(t, profile, nil)
				}
				at, conns := loadPage(t, b, url, servers)
				mostConns = max(mostConns, conns)
				if i > 0 && at != member {
					t.Errorf("page %d: the browser moved from %s to %s", i+1, member, at)
				}
				member = at
				is := tt.cookie
				if is == nil {
					is = isInserted
				}
				cookies, err := b.Cookies()
				if err != nil || len(cookies) != 1 || !is(member, cookies[0]) || i > 0 && cookies[0] != kept {
					t.Fatalf("page %d from %s: the browser keeps %+v, %v; before %+v", i+1, member, cookies, err, kept)
				}
				kept = cookies[0]
				// Others come, so that the next would be sent elsewhere.
				var others []string
				for range len(servers) - 1 {
					if _, err := e2e.Get(place); err != nil {
						t.Fatal(err)
					}
					at, _ := together(t, servers, 1)
					others = append(others, at)
				}
				if len(slices.Compact(others)) != len(servers)-1 {
					t.Errorf("others were sent to %v", others)
				}
			}
			if mostConns < 2 {
				t.Error("the browser never asked for two things at once")
			}
		})
	}
}

// loadPage loads a page, asks twelve things at once, and returns the member that answered all of it, and on how many connections.
func loadPage(t *testing.T, b *browser.Browser, url string, servers []*webServer) (member string, conns int) {
	t.Helper()
	if err := b.Load(url + "/"); err != nil {
		t.Fatal(err)
	}
	page, visits := together(t, servers, parts)
	var names []string
	if err := b.Evaluate(`Promise.all(Array.from({length: 12}, (_, i) => fetch("/who?" + i).then(r => r.text())))`, &names); err != nil {
		t.Fatal(err)
	}
	at, more := together(t, servers, 12)
	ports := map[string]bool{}
	for _, v := range append(visits, more...) {
		ports[v.port] = true
	}
	if slices.Sort(names); len(names) != 12 || names[0] != page || names[11] != page || at != page {
		t.Errorf("%v answered twelve requests after %s the page", names, page)
	}
	return page, len(ports)
}

// The cookies that a browser keeps, one a mode, without the domain.

func isInserted(member string, c browser.Cookie) bool {
	c.Domain = ""
	return c == browser.Cookie{Name: "BIGipServerweb", Value: webValues[member], Path: "/"}
}

func isPassive(member string, c browser.Cookie) bool {
	c.Domain = ""
	return c == browser.Cookie{Name: "BIGipServer web", Value: strings.TrimSuffix(webValues[member], "0"), Path: "/"}
}

// isToken: scripts of the site do not see it, and it says nothing to people (rule G-3).
func isToken(_ string, c browser.Cookie) bool {
	secret := strings.HasPrefix(c.Value, "v1.")
	c.Domain, c.Value = "", ""
	return secret && c == browser.Cookie{Name: "shop", Path: "/", HTTPOnly: true}
}

// TestBrowserCookieScope: one cookie serves all folders of a site (pain 8), and with cookie_domain all hosts of a domain (pain 18).
func TestBrowserCookieScope(t *testing.T) {
	peerProgram(t, browser.Find, "chromium-headless-shell")
	site, servers := webSite(t, "apache", "persist_mode cookie\ncookie_domain .example.com", "", nil)
	place, err := site.Place("192.168.200.10:80")
	if err != nil {
		t.Fatal(err)
	}
	b := startBrowser(t, profileDir(t), map[string]netip.Addr{"a.example.com": place.Addr(), "b.example.com": place.Addr()})
	defer b.Close()
	member := ""
	for _, path := range []string{"a.example.com/a/b/", "a.example.com/a/c/", "b.example.com/", "a.example.com/"} {
		host, folder, _ := strings.Cut(path, "/")
		if err := b.Load(fmt.Sprintf("http://%s:%d/%s", host, place.Port(), folder)); err != nil {
			t.Fatal(err)
		}
		at, _ := together(t, servers, parts)
		if member != "" && at != member {
			t.Errorf("%s: the browser moved from %s to %s", path, member, at)
		}
		member = at
		cookies, err := b.Cookies()
		want := browser.Cookie{Name: "BIGipServerweb", Value: webValues[member], Domain: ".example.com", Path: "/", Session: true}
		if err != nil || !slices.Equal(cookies, []browser.Cookie{want}) {
			t.Errorf("%s: the browser keeps %+v, %v, want %+v", path, cookies, err, want)
		}
		if _, err := e2e.Get(place); err != nil { // another client takes its turn
			t.Fatal(err)
		}
		together(t, servers, 1)
	}
}
