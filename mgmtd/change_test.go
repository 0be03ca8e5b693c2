package mgmtd

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
)

// A query is answered, a faulty text refused and a dry run made while somebody else writes.
func TestExecute_queries_do_not_wait_for_writers(t *testing.T) {
	d := startFake(t)
	a := startAdmin(t, "", d)
	a.mustLoad(smallSite)
	a.server.writing.Lock()
	defer a.server.writing.Unlock()
	for _, query := range []string{
		"pool web show", "list", "history", "sysctl -a", "pool web persist dump", "pool web persist clear", "version", "summary",
		"pool web modify { simple_timeout 300 }",
	} {
		a.must(query)
	}
	for _, faulty := range []string{"pool web { member", "pool nowhere show", "virtual 127.0.10.9:80 use pool nowhere", "sysctl bigip.nosuch"} {
		if r := a.command(faulty); r.exit == 0 {
			t.Errorf("%s: exit %d", faulty, r.exit)
		}
	}
	if r := a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, DryRun: true}, "pool x { member 10.1.1.1:80 }"); r.exit != 1 {
		t.Errorf("dry run: exit %d\n%s", r.exit, r.errors())
	}
}

// While one text is evaluated, which waits for a host's address here, others write; it is then evaluated again.
func TestExecute_writers_do_not_wait_for_an_evaluation(t *testing.T) {
	asked, answer := make(chan string, 10), make(chan struct{})
	a := startAdminWith(t, Config{Resolve: func(host string) (netip.Addr, error) {
		asked <- host
		<-answer
		if host != "known.example" {
			return netip.Addr{}, errors.New("no such host")
		}
		return netip.MustParseAddr("10.1.1.9"), nil
	}}, "")
	a.mustLoad(smallSite)
	slow := make(chan reply, 1)
	go func() { slow <- a.command("pool slow { member known.example:80 }") }()
	<-asked
	a.must("pool quick { member 10.1.1.1:80 }")
	a.must("pool web modify { simple_timeout 60 }")
	close(answer)
	if r := <-slow; r.exit != 0 {
		t.Fatalf("exit %d\n%s", r.exit, r.errors())
	}
	tree := a.store.Newest().Tree
	if tree.Get("pool/slow").GetPool().GetMembers()[0].GetAddress() != "10.1.1.9:80" || tree.Get("pool/quick") == nil ||
		tree.Get("pool/web").GetPool().GetSimpleTimeout() != 60 {
		t.Errorf("a change is lost: %v", tree.Get("pool/slow"))
	}
	if len(asked) != 0 {
		t.Error("a host was asked for again")
	}
}

// What was right when it was evaluated is looked at again when something else came between.
func TestExecute_overtaken(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	a := startAdminWith(t, Config{Resolve: func(string) (netip.Addr, error) {
		close(asked)
		<-answer
		return netip.MustParseAddr("10.1.1.9"), nil
	}}, "")
	a.must("pool web { member 10.1.1.1:80 }")
	slow := make(chan reply, 1)
	go func() { slow <- a.command("pool web add { member host.example:80 }") }()
	<-asked
	a.must("pool web delete")
	close(answer)
	if r := <-slow; r.exit != 1 || a.store.Newest().Tree.Len("pool") != 0 {
		t.Errorf("exit %d\n%s", r.exit, r.errors())
	}
}

// Each of many changes at once happens, however often it is overtaken.
func TestExecute_many_writers(t *testing.T) {
	a := startAdmin(t, "")
	a.must("pool shared { member 10.1.1.1:80 }")
	const writers, each = 8, 6
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				if r := a.command(fmt.Sprintf("pool shared add { member 10.2.%d.%d:80 }", w, n)); r.exit != 0 {
					t.Errorf("exit %d\n%s", r.exit, r.errors())
				}
			}
		})
	}
	wg.Wait()
	if n := len(a.store.Newest().Tree.Get("pool/shared").GetPool().GetMembers()); n != 1+writers*each {
		t.Errorf("%d members", n)
	}
	if n := a.store.Newest().Revision; n != 1+writers*each {
		t.Errorf("revision %d", n)
	}
}
