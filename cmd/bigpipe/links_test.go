package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"bigpipe/cmd/bigpipe/internal/browser"
	"bigpipe/cmd/bigpipe/internal/e2e"
)

// shop is an application server that keeps sessions. As Tomcat does it, it puts the session into its links while that does not come in
// a cookie; otherwise always. Its pages count what the session has seen.
type shop struct {
	name   string
	tomcat bool

	mu       sync.Mutex
	sessions map[string]int
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, id, _ := strings.Cut(r.URL.Path, ";jsessionid=")
	c, err := r.Cookie("JSESSIONID")
	if err == nil {
		id = c.Value
	}
	if !strings.HasPrefix(path, "/shop") {
		fmt.Fprintln(w, s.name)
		return
	}
	if s.sessions[id] == 0 {
		id = fmt.Sprintf("8F%d.%X", len(s.sessions), s.name)
		http.SetCookie(w, &http.Cookie{Name: "JSESSIONID", Value: id, Path: "/shop", HttpOnly: true})
	}
	inURL := ""
	if err != nil || !s.tomcat {
		inURL = ";jsessionid=" + id
	}
	if path == "/shop/next" { // not a page, but leads to one
		w.Header().Set("Location", "page"+inURL)
		w.WriteHeader(http.StatusFound)
		return
	}
	s.sessions[id]++
	link := "page"
	if s.sessions[id]%4 == 0 {
		link = "next"
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><p>%s shows page %d, then <a href="%s?x=1">another</a>`,
		s.name, s.sessions[id], "/shop/"+link+inURL)
}

// shopSite starts three of them behind a virtual server whose pool says persist_mode jroute and nothing more.
func shopSite(t *testing.T, tomcat bool) (*e2e.Site, []*shop) {
	t.Helper()
	text := "pool shops { persist_mode jroute member " + strings.Join(webMembers, " member ") + " }\nvirtual 192.168.200.10:80 { use pool shops }\n"
	site := newSite(t, text)
	var shops []*shop
	for _, member := range webMembers {
		place, err := site.Place(member)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", place.String())
		if err != nil {
			t.Fatal(err)
		}
		s := &shop{name: member, tomcat: tomcat, sessions: map[string]int{}}
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: s}}
		server.Start()
		t.Cleanup(server.Close)
		shops = append(shops, s)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	loadText(t, site, text)
	return site, shops
}

var shopPage = regexp.MustCompile(`<p>(\S+) shows page (\d+), then <a href="([^"]+)">`)

// tenLinks follows ten links of a shop, from /shop/ on, as get does it. All must be shown by one member, in one session, while others
// come and are sent elsewhere.
func tenLinks(t *testing.T, site *e2e.Site, shops []*shop, get func(link string) (page string)) {
	t.Helper()
	place, err := site.Place("192.168.200.10:80")
	if err != nil {
		t.Fatal(err)
	}
	member, link, others := "", "/shop/", map[string]bool{}
	for i := range 11 {
		page := get(link)
		at := shopPage.FindStringSubmatch(page)
		if at == nil || i > 0 && at[1] != member || at[2] != fmt.Sprint(i+1) {
			t.Fatalf("link %d, %s, led from %s to %.500s", i, link, member, page)
		}
		member, link = at[1], at[3]
		reply, err := e2e.Get(place)
		if err != nil {
			t.Fatal(err)
		}
		others[fmt.Sprint(reply)] = true
	}
	if len(others) != len(shops) {
		t.Errorf("others were sent to %v", others)
	}
	for _, s := range shops {
		if n := len(s.sessions); n != 1 && s.name == member || n != 0 && s.name != member {
			t.Errorf("%s has %d sessions", s.name, n)
		}
	}
}

// TestCurlFollowsLinks: curl without and with a jar stays in its session (test J-T16).
func TestCurlFollowsLinks(t *testing.T) {
	program := peerProgram(t, named("curl"), "curl")
	for kind, tomcat := range map[string]bool{"tomcat": true, "go": false} {
		for _, jar := range []bool{false, true} {
			name := "J-T16_" + kind + "_without_cookies"
			args := []string{"--silent", "--show-error", "--location", "--max-time", "20", "--noproxy", "*"}
			if jar {
				name = "J-T16_" + kind + "_with_a_jar"
				file := filepath.Join(t.TempDir(), "jar")
				args = append(args, "--cookie", file, "--cookie-jar", file)
			}
			t.Run(name, func(t *testing.T) {
				site, shops := shopSite(t, tomcat)
				to := url(t, site, "192.168.200.10:80")
				tenLinks(t, site, shops, func(link string) string {
					out, err := exec.Command(program, append(slices.Clip(args), to+link)...).CombinedOutput()
					if err != nil {
						t.Fatalf("curl %s: %v\n%s", link, err, out)
					}
					return string(out)
				})
			})
		}
	}
}

// TestBrowserFollowsLinks: a browser that keeps no cookies, and one that does, stay in their sessions (test J-T16).
func TestBrowserFollowsLinks(t *testing.T) {
	for name, c := range map[string]struct{ tomcat, forgets bool }{
		"J-T16_tomcat_without_cookies": {true, true}, "J-T16_tomcat": {true, false}, "J-T16_go_without_cookies": {false, true}, "J-T16_go": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			peerProgram(t, browser.Find, "chromium-headless-shell")
			t.Parallel()
			site, shops := shopSite(t, c.tomcat)
			to := url(t, site, "192.168.200.10:80")
			b := startBrowser(t, profileDir(t), nil)
			defer func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}()
			tenLinks(t, site, shops, func(link string) (page string) {
				if err := b.Load(to + link); err != nil {
					t.Fatal(err)
				}
				if err := b.Evaluate("document.documentElement.outerHTML", &page); err != nil {
					t.Fatal(err)
				}
				if c.forgets {
					if err := b.Forget(); err != nil {
						t.Fatal(err)
					}
				}
				return page
			})
			names := map[string]bool{}
			cookies, err := b.Cookies()
			for _, cookie := range cookies {
				names[cookie.Name] = cookie.Path == "/shop" && cookie.HTTPOnly
			}
			if want := !c.forgets; err != nil || names["JSESSIONID"] != want || names["JROUTE"] != want {
				t.Errorf("the browser keeps %+v, %v", cookies, err)
			}
		})
	}
}
