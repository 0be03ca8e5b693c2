package browser

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A page with its parts is loaded, a script's promise is waited for, and a cookie outlives the browser if it says so.
func TestBrowser(t *testing.T) {
	program, err := Find()
	if err != nil {
		if os.Getenv("BIGPIPE_NO_SKIP") != "" {
			t.Fatal("no chromium is installed")
		}
		t.Skip("no chromium is installed (package chromium-headless-shell)")
	}
	parts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Add("Set-Cookie", "short=1; path=/")
			w.Header().Add("Set-Cookie", "long=2; max-age=1000; path=/; HttpOnly")
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<!doctype html><link rel="icon" href="data:,"><script src="/part"></script>`))
		case "/part":
			parts++
		case "/cookie":
			_, _ = w.Write([]byte(r.Header.Get("Cookie")))
		}
	}))
	defer server.Close()
	profile := filepath.Join(t.TempDir(), "profile")
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	site := "http://www.example.test:" + port
	for run, want := range []string{"short=1; long=2", "long=2; short=1"} {
		b, err := Start(program, profile, map[string]netip.Addr{"www.example.test": netip.MustParseAddr("127.0.0.1")})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Load(site + "/"); err != nil || parts != run+1 {
			t.Errorf("run %d: %d parts, %v", run, parts, err)
		}
		var got string
		if err := b.Evaluate(`fetch("/cookie").then(r => r.text())`, &got); err != nil || got != want {
			t.Errorf("run %d: cookies %q, %v", run, got, err)
		}
		cookies, err := b.Cookies()
		if err != nil || len(cookies) != 2 {
			t.Errorf("run %d: %+v, %v", run, cookies, err)
		}
		for _, c := range cookies {
			if long := c.Name == "long"; c.Session == long || c.HTTPOnly != long || c.Domain != "www.example.test" {
				t.Errorf("run %d: %+v", run, c)
			}
		}
		if err := b.Load("http://elsewhere.example.test/"); err == nil {
			t.Error("an unknown host was reached")
		}
		if err := b.Evaluate("nonsense", &got); err == nil {
			t.Error("a script that fails succeeded")
		}
		if run == 1 {
			if err := b.Forget(); err != nil {
				t.Error(err)
			}
			if cookies, err := b.Cookies(); err != nil || len(cookies) > 0 {
				t.Errorf("forgotten, and then %+v, %v", cookies, err)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
