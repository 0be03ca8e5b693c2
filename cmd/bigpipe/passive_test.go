package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPassiveApache: a pool of Apaches that set its cookie by the recipe that seed 002 prints: the name with a blank, the colon
// after Set-Cookie, three zeros, and the address by the printed formula or by what boxes really wrote (rules C-4, C-5, C-11,
// pain 15).
func TestPassiveApache(t *testing.T) {
	const conf = `pool my_pool { lb_mode round_robin persist_mode cookie cookie_mode passive
   member 192.170.1.11:80 member 192.170.1.12:80 member 192.170.1.13:80 }
virtual 192.168.200.10:80 { use pool my_pool }
`
	// 192.170.1.12 is 192*256^3 + 170*256^2 + 1*256 + 12 by the printed formula. The seed's date is long past, so that clients do
	// not keep that cookie.
	lines := map[string]string{
		"192.170.1.11:80": "BIGipServer my_pool=184658624.20480.000; expires=Sat, 19-Aug-2000 19:35:45 GMT; path=/",
		"192.170.1.12:80": "BIGipServer my_pool=3232366860.20480.000; expires=Sat, 19-Aug-2090 19:35:45 GMT; path=/",
		"192.170.1.13:80": "",
	}
	site := newSite(t, conf)
	for member, line := range lines {
		directive := ""
		if line != "" {
			directive = `Header add Set-Cookie: "` + line + `"`
		}
		startWebServer(t, site, "apache", member, directive)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	loadText(t, site, conf)
	to := url(t, site, "192.168.200.10:80") + "/who"

	c := newCurl(t, "jar")
	for _, member := range []string{"192.170.1.11:80", "192.170.1.12:80"} {
		body, set := c.get(to)
		if body != member || !slices.Equal(set, []string{"Set-Cookie: " + lines[member]}) {
			t.Errorf("%s answered with %q, want %s with %q", body, set, member, lines[member])
		}
	}
	for range 3 { // the jar holds the cookie of the second
		if body, set := c.get(to); body != "192.170.1.12:80" || len(set) != 1 {
			t.Errorf("%s answered with %q", body, set)
		}
	}
	// Who sends the seed's own cookie reaches its member, in both spellings of the name.
	for _, name := range []string{"BIGipServer my_pool", "BIGipServermy_pool"} {
		out, err := exec.Command(c.program, "--silent", "--noproxy", "*", "--header", "Cookie: a=b; "+name+"=184658624.20480.000", to).Output()
		if string(out) != "192.170.1.11:80" || err != nil {
			t.Errorf("%s: answered by %q, %v", name, out, err)
		}
	}
	// A server that sets none gets no help.
	if body, set := newCurl(t, "fresh").get(to); body != "192.170.1.13:80" || len(set) != 0 {
		t.Errorf("%s answered with %q", body, set)
	}
	if log, err := site.Log("dataplane"); err != nil || strings.Count(log, "cookie=BIGipServermy_pool") != 1 {
		t.Errorf("the printed order has to be warned of once: %v\n%s", err, log)
	}
}
