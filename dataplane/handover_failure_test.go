package dataplane

import (
	"errors"
	"os"
	"sync"
	"testing"

	"bigpipe/dataplane/handover"
)

// A process that fails in the middle of taking over changes nothing.
func TestHandOverFails(t *testing.T) {
	dir := t.TempDir()
	a := newMember(t, "a", false)
	p := startProcess(t, dir)
	p.apply(simplePool("p", 60, a.addr()), virtualServer(web, "p"))
	_, open := p.visit(web)
	prepared := func(c *handover.Conn) {
		for {
			m, err := c.Receive()
			if err != nil {
				t.Fatal(err)
			}
			m.Close()
			if m.Kind == sayPrepared {
				return
			}
		}
	}
	until := func(c *handover.Conn, kind handover.Kind) {
		for {
			m, err := c.Receive()
			if err != nil {
				t.Fatal(err)
			}
			m.Close()
			if m.Kind == kind {
				return
			}
		}
	}
	steps := map[string]func(*handover.Conn){
		"at once":            func(*handover.Conn) {},
		"in the middle":      func(c *handover.Conn) { _, _ = c.Receive() },
		"when it has all":    prepared,
		"with garbage":       func(c *handover.Conn) { prepared(c); _ = c.Send(99, []byte("garbage")) },
		"when it is ready":   func(c *handover.Conn) { prepared(c); _ = c.Send(sayReady, nil) },
		"before the promise": func(c *handover.Conn) { prepared(c); _ = c.Send(sayReady, nil); until(c, sayYours) },
		"with a wrong word": func(c *handover.Conn) {
			prepared(c)
			_ = c.Send(sayReady, nil)
			until(c, sayYours)
			_ = c.Send(sayEnded, nil)
		},
	}
	failures := 0
	for name, step := range steps {
		c, err := handover.Dial(t.Context(), dir)
		if err != nil {
			t.Fatal(name, err)
		}
		step(c)
		c.Close()
		failures++
		eventually(t, "the failure is noticed: "+name, func() bool { return p.log.count("level=ERROR", "goes on") == failures })
		want(t, p.who(web), "a")
		want(t, reasons(p.apply(simplePool("p", 60, a.addr()))), "")
		echo(t, open, "undisturbed")
	}
	// One that cannot begin: another configuration of the service's address is taken by somebody else.
	s := handover.NewSockets()
	taken, err := Take(t.Context(), dir, s, p.log.logger())
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Listen: "nonsense"}
	o.StateDir, o.Taken, o.Sockets = dir, taken, s
	if err := Run(t.Context(), o); err == nil {
		t.Error("it runs")
	}
	s.Close()
	eventually(t, "it goes on", func() bool { return p.log.count("level=ERROR", "goes on") == failures+1 })
	want(t, p.who(web), "a")
	open.Close()
	second := p.succeed(dir)
	<-p.done
	want(t, second.who(web), "a")
}

// A dataplane that dies in the middle is succeeded all the same: with what it had said last of all where it had given
// everything, else with what is on the disk.
func TestGiverDies(t *testing.T) {
	t.Run("before it has given everything", func(t *testing.T) {
		dir := t.TempDir()
		l, err := handover.Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		var giving sync.WaitGroup
		giving.Go(func() {
			c, err := l.Accept(func(err error) { t.Error(err) })
			if err != nil {
				return
			}
			l.Close()
			_ = c.Send(sayConfiguration, []byte(journalMagic))
			c.Close()
		})
		p := startProcess(t, dir)
		giving.Wait()
		want(t, reasons(p.apply(plainPool("p", "127.0.0.1:1"))), "")
	})
	t.Run("before the promise", func(t *testing.T) {
		dir := t.TempDir()
		a, b := newMember(t, "a", false), newMember(t, "b", false)
		first := newSite(t, dir, mapped)
		first.apply(simplePool("p", 600, a.addr(), b.addr()), virtualServer(web, "p"))
		want(t, first.who(web), "a")
		l, err := handover.Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		var giving sync.WaitGroup
		giving.Go(func() {
			c, err := l.Accept(func(err error) { t.Error(err) })
			if err != nil {
				return
			}
			l.Close()
			first.engine.mu.Lock()
			if err := (&giver{engine: first.engine}).prepare(c); err != nil {
				t.Error(err)
			}
			first.engine.mu.Unlock()
			if err := expect(c, sayReady, patience); err != nil {
				t.Error(err)
			}
			c.Close()
		})
		second := startProcess(t, dir)
		giving.Wait()
		first.close()
		second.revision = first.revision
		for range 3 {
			want(t, second.who(web), "a")
		}
		want(t, reasons(second.apply(plainPool("q", b.addr()))), "")
	})
}

// A dataplane that is asked while it ends gives nothing; what it says makes no sense to one that takes over.
func TestTakeRefuses(t *testing.T) {
	for name, give := range map[string]func(*handover.Conn){
		"nothing":         func(*handover.Conn) {},
		"a refusal":       func(c *handover.Conn) { c.Refuse(errors.New("not now")) },
		"a wrong message": func(c *handover.Conn) { _ = c.Send(sayMine, nil) },
		"no lock":         func(c *handover.Conn) { _ = c.Send(sayPrepared, nil) },
		"bad records":     func(c *handover.Conn) { _ = c.Send(sayRecords, []byte{0, 9, 1}) },
		"names without":   func(c *handover.Conn) { _ = c.Send(saySockets, []byte("one\ntwo\n")) },
		"no configuration": func(c *handover.Conn) {
			f, _ := os.Open(os.DevNull)
			_ = c.Send(sayLock, nil, f)
			f.Close()
			_ = c.Send(sayPrepared, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := handover.Listen(dir)
			if err != nil {
				t.Fatal(err)
			}
			var giving sync.WaitGroup
			giving.Go(func() {
				if c, err := l.Accept(func(err error) { t.Error(err) }); err == nil {
					give(c)
					c.Close()
				}
			})
			s := handover.NewSockets()
			taken, err := Take(t.Context(), dir, s, (&logged{}).logger())
			if err == nil {
				taken.Close()
				t.Error("it is taken")
			}
			s.Close()
			l.Close()
			giving.Wait()
		})
	}
	s := handover.NewSockets()
	if taken, err := Take(t.Context(), t.TempDir(), s, (&logged{}).logger()); taken != nil || err != nil {
		t.Errorf("nobody is there: %v, %v", taken, err)
	}
}
