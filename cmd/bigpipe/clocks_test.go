package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOtherMonotonicClock: pain 22: an encrypted cookie with a life is good at another dataplane whose monotonic clock is a day
// ahead: the wall clock alone counts.
func TestOtherMonotonicClock(t *testing.T) {
	t.Parallel()
	const conf = "pool web { persist_mode cookie cookie_mode insert cookie_encryption required cookie_lifetime server cookie_expiration 0d 01:00:00\n" +
		"   member 10.1.1.1:80 member 10.1.1.2:80 member 10.1.1.3:80 }\n" +
		"virtual 192.168.200.10:80 { use pool web }\n"
	ahead := []string{"unshare", "--time", "--monotonic", "86400", "--boottime", "86400", "--"}
	uptime := func(under ...string) (seconds float64) {
		out, err := exec.Command("env", append(under, "cat", "/proc/uptime")...).CombinedOutput()
		if err == nil {
			_, err = fmt.Sscan(string(out), &seconds)
		}
		if err != nil && os.Getenv("BIGPIPE_NO_SKIP") == "" {
			t.Skipf("no time namespace (package util-linux; root may): %v %s", err, out)
		}
		if err != nil {
			t.Fatalf("no time namespace: %v %s", err, out)
		}
		return seconds
	}
	if here, there := uptime(), uptime(ahead...); there < here+86_000 {
		t.Fatalf("the other clock says %f, ours %f", there, here)
	}
	site := newSite(t, conf+"192.168.201.10:80")
	site.Under = ahead
	if err := site.StartMembers("10.1.1.1:80", "10.1.1.2:80", "10.1.1.3:80"); err != nil {
		t.Fatal(err)
	}
	if err := site.StartBoth(); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(site.Dir, "one.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0f", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	loadText(t, site, "global cookie_key one "+key+"\n"+conf)
	c := newHTTPClient(site, false)
	defer c.close()
	units := []string{"192.168.200.10:80", "192.168.201.10:80"}
	for from, to := range []int{1, 0} { // minted by each, presented to the other
		for n := range 3 {
			jar := fmt.Sprint(from, n)
			minted, err := c.get(units[from], "/", nil, jar)
			if err != nil {
				t.Fatal(err)
			}
			if set := minted.cookies(); len(set) != 1 || !strings.HasPrefix(set[0].Value, "!") {
				t.Fatalf("set %v", set)
			}
			for range 2 {
				got, err := c.get(units[to], "/", nil, jar)
				if err != nil {
					t.Fatal(err)
				}
				if got.pod != minted.pod || len(got.cookies()) != 0 {
					t.Errorf("minted at unit %d for %s; unit %d: %s, set %v", from+1, minted.pod, to+1, got.pod, got.cookies())
				}
			}
		}
	}
}
