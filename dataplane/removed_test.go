package dataplane

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

// tokenPool is a pool with persist_mode token.
func tokenPool(name string, members ...string) *pb.Object {
	o := plainPool(name, members...)
	o.GetPool().PersistMode = pb.PersistMode_PERSIST_MODE_TOKEN.Enum()
	return o
}

// request asks the virtual server web with a cookie, and returns who answers and the cookie that is set, "" for none.
func (s *site) request(cookie string) (name, set string) {
	s.t.Helper()
	c, err := s.dial(web)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: h\r\nCookie: %s\r\n\r\n", cookie)
	reply, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	set, _, _ = strings.Cut(reply.Header.Get("Set-Cookie"), ";")
	return string(body), set
}

// sessionAt begins a session at the member of a name.
func (s *site) sessionAt(name string) (cookie string) {
	s.t.Helper()
	for range 10 {
		if at, set := s.request(""); at == name {
			return set
		}
	}
	s.t.Fatalf("nobody gets to %s", name)
	return ""
}

// TestRemovedMembers: rule G-12 where the process is replaced: a member that was removed less than token_retain ago keeps its sessions.
func TestRemovedMembers(t *testing.T) {
	stays := func(t *testing.T, s *site, cookie, name string) {
		t.Helper()
		for range 3 {
			if at, set := s.request(cookie); at != name || set != "" {
				t.Errorf("answered by %s with %q, want %s without a cookie", at, set, name)
			}
			if at, _ := s.request(""); at == name {
				t.Errorf("a new session at %s, which was removed", at)
			}
		}
	}
	a, b, c := newMember(t, "a", true), newMember(t, "b", true), newMember(t, "c", true)
	all := tokenPool("p", a.addr(), b.addr(), c.addr())
	all.GetPool().Members[0].Epoch = new(uint64(7))

	t.Run("G-12_handed_over", func(t *testing.T) {
		dir := t.TempDir()
		first := startProcess(t, dir)
		first.apply(all, virtualServer(web, "p"))
		cookie := first.sessionAt("a")
		first.apply(tokenPool("p", b.addr(), c.addr()))
		stays(t, &first.site, cookie, "a")
		second := first.succeed(dir)
		<-first.done
		stays(t, &second.site, cookie, "a")
		third := second.succeed(dir) // which has it from a process that did not see it removed
		<-second.done
		stays(t, &third.site, cookie, "a")
	})
	t.Run("G-12_killed", func(t *testing.T) {
		dir := t.TempDir()
		first := newSite(t, dir, mapped)
		first.apply(all, virtualServer(web, "p"))
		cookie := first.sessionAt("a")
		first.apply(tokenPool("p", b.addr(), c.addr()))
		second := newSite(t, killed(t, dir), mapped)
		second.revision = first.revision
		stays(t, second, cookie, "a")

		// Another member is removed: the first stays as long as it would have.
		cookieOfC := second.sessionAt("c")
		second.apply(tokenPool("p", b.addr()))
		stays(t, second, cookie, "a")
		stays(t, second, cookieOfC, "c")

		// It was another machine, and comes back.
		second.apply(tokenPool("p", a.addr(), b.addr()))
		if _, set := second.request(cookie); set == "" {
			t.Error("the session goes on at another machine")
		}
	})
	t.Run("G-12_time_goes_on_while_nothing_runs", func(t *testing.T) {
		dir := t.TempDir()
		first := newSite(t, dir, mapped)
		first.apply(all, virtualServer(web, "p"))
		cookie := first.sessionAt("a")
		first.apply(tokenPool("p", b.addr(), c.addr()))
		left := killed(t, dir)
		path := filepath.Join(left, removedName)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		now := first.engine.removed.now["p"][0].Since.Format(time.RFC3339Nano)
		earlier := time.Now().Add(-601 * time.Second).Format(time.RFC3339Nano)
		changed := strings.ReplaceAll(string(text), now, earlier)
		if changed == string(text) {
			t.Fatalf("the file holds %s", text)
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		second := newSite(t, left, mapped)
		second.revision = first.revision
		if at, set := second.request(cookie); at == "a" || set == "" {
			t.Errorf("answered by %s with %q", at, set)
		}
		second.apply(tokenPool("p", b.addr(), c.addr(), a.addr()))
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the file is still there: %v", err)
		}
	})
	t.Run("disk_fails", func(t *testing.T) {
		dir, log := t.TempDir(), &logged{}
		path := filepath.Join(dir, removedName)
		if err := os.Mkdir(path+".new", 0o700); err != nil { // nothing can be written there
			t.Fatal(err)
		}
		s := newLoggedSite(t, dir, mapped, log.logger())
		s.apply(all, virtualServer(web, "p"))
		cookie := s.sessionAt("a")
		for range 2 {
			s.apply(tokenPool("p", b.addr(), c.addr()))
			stays(t, s, cookie, "a")
		}
		if n := log.count("cannot keep which members were removed"); n != 1 {
			t.Errorf("it is told %d times that the disk fails", n)
		}
		if err := os.Remove(path + ".new"); err != nil {
			t.Fatal(err)
		}
		s.apply(tokenPool("p", b.addr(), c.addr()))
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	})
	t.Run("damaged", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, removedName), []byte(`{"p":[{"addr`), 0o600); err != nil {
			t.Fatal(err)
		}
		log := &logged{}
		s := newLoggedSite(t, dir, mapped, log.logger())
		s.apply(all, virtualServer(web, "p"))
		cookie := s.sessionAt("a")
		if log.count("members that were removed are not honoured any more") != 1 {
			t.Error("the log does not tell of the damage")
		}
		s.apply(tokenPool("p", b.addr(), c.addr()))
		stays(t, s, cookie, "a")
	})
}
