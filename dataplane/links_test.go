package dataplane

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
)

// application is an application server with sessions in its memory: "tomcat" knows nothing of routes and puts the session into
// links while it does not come in a cookie, "sun" does so with the route that it is told (rule J-5), "go" always. A page counts what
// its session has seen, and leads to the next one; some pages are redirects, some are long.
type application struct {
	name, kind string

	mu       sync.Mutex
	sessions map[string]int // pages
	targets  []string       // that were asked for
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.targets = append(a.targets, r.RequestURI)
	if r.URL.Path == "/stranger" {
		fmt.Fprint(w, a.name)
		return
	}
	route := r.Header.Get("Proxy-jroute")
	_, id, _ := strings.Cut(r.URL.Path, ";jsessionid=")
	if a.kind == "sun" {
		id, _, _ = strings.Cut(id, ":")
	}
	c, err := r.Cookie("JSESSIONID")
	if err == nil {
		id = c.Value
	}
	seen, known := a.sessions[id]
	if !known {
		id = fmt.Sprintf("%X.%s-%d", "session", a.name, len(a.sessions))
		http.SetCookie(w, &http.Cookie{Name: "JSESSIONID", Value: id, Path: "/", HttpOnly: true})
		if _, err := r.Cookie("JROUTE"); err != nil && a.kind == "sun" {
			http.SetCookie(w, &http.Cookie{Name: "JROUTE", Value: route, Path: "/", HttpOnly: true})
		}
	}
	seen++
	a.sessions[id] = seen
	link := "/shop/page"
	switch {
	case err == nil && a.kind != "go":
	case a.kind == "sun":
		link += ";jsessionid=" + id + ":" + route
	default:
		link += ";jsessionid=" + id
	}
	link += fmt.Sprintf("?after=%d", seen)
	if seen%3 == 0 {
		w.Header().Set("Location", link)
		w.WriteHeader(http.StatusFound)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if seen%4 == 0 {
		fmt.Fprint(w, strings.Repeat("<p>;jsessionid</p>\n", 5000))
	}
	fmt.Fprintf(w, `<html><body>%s <a href="%s">page %d</a></body></html>`, a.name, link, seen)
}

// newApplications starts application servers of a kind behind vip, in a pool that persists by routes and says nothing more.
func newApplications(t *testing.T, kind string) (*site, []*application) {
	t.Helper()
	var list []*application
	p := &pb.Pool{Name: "app", PersistMode: pb.PersistMode_PERSIST_MODE_JROUTE.Enum()}
	addresses := vip + "=127.0.0.1:0"
	for i := range 3 {
		a := &application{name: fmt.Sprintf("s%d", i+1), kind: kind, sessions: map[string]int{}}
		server := httptest.NewServer(a)
		t.Cleanup(server.Close)
		list = append(list, a)
		p.Members = append(p.Members, &pb.Member{Address: realOf(a.name)})
		addresses += "," + realOf(a.name) + "=" + server.Listener.Addr().String()
	}
	s := newSite(t, "", addresses)
	want(t, reasons(s.apply(object(p), virtualServer(vip, "app"))), "")
	return s, list
}

var linkOf = regexp.MustCompile(`(s\d) <a href="([^"]+)">page (\d+)<`)

// Rule J-10 and test J-T16: a client without cookies that follows ten links, and one with a jar, each stay on one instance with
// nothing configured, while strangers are balanced.
func TestLinksLeadBack(t *testing.T) {
	for _, kind := range []string{"tomcat", "sun", "go"} {
		for _, jar := range []bool{false, true} {
			name := "J-T16_" + kind + "_without_cookies"
			if jar {
				name = "J-T16_" + kind + "_with_a_jar"
			}
			t.Run(name, func(t *testing.T) {
				s, apps := newApplications(t, kind)
				followLinks(t, s, jar, kind)
				sessions := 0
				for _, a := range apps {
					sessions += len(a.sessions)
					for _, target := range a.targets {
						if _, route, ok := strings.Cut(target, ":"); ok {
							t.Errorf("%s saw route %s", a.name, route)
						}
					}
				}
				if sessions != 1 {
					t.Errorf("%d sessions", sessions)
				}
			})
		}
	}
}

// followLinks follows ten links, and asks something without a session after each.
func followLinks(t *testing.T, s *site, jar bool, kind string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return s.dial(vip) }}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	if jar {
		c.Jar, _ = cookiejar.New(nil)
	}
	get := func(c *http.Client, url string) string {
		t.Helper()
		r, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	member, link, strangers := "", "/shop/", map[string]bool{}
	for i, page := range []int{1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16} { // each third is a redirect
		body := get(c, "http://shop.example"+link)
		at := linkOf.FindStringSubmatch(body)
		if at == nil || at[3] != fmt.Sprint(page) || i > 0 && at[1] != member {
			t.Fatalf("link %d, %s, led from %s to %.200q; want page %d", i, link, member, body, page)
		}
		member, link = at[1], at[2]
		if routed := strings.Contains(link, ":"); routed != (i == 0 || !jar) {
			t.Errorf("page %d of %s: link %s", page, kind, link)
		}
		strangers[get(&http.Client{Transport: transport}, "http://shop.example/stranger")] = true
	}
	if len(strangers) != 3 {
		t.Errorf("strangers were served by %v", strangers)
	}
}
