package mgmtd

import (
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "bigpipe/proto/bigpipe/v1"
)

// A dataplane that does not answer is named, within one time limit, and what it would tell is not zero but not known.
func TestShow_silent_dataplane(t *testing.T) {
	t.Parallel()
	d := startFake(t)
	a := startAdminWith(t, Config{AskTimeout: 100 * time.Millisecond}, "", d)
	a.mustLoad(showSite)
	d.set(func() { d.hung = true })
	const silent = "dataplane dp0: no answer within 100ms\n"
	shows := map[string]string{
		"pool web show": `POOL web    LB_MODE ratio_member
|     (cur, max, limit, tot) = (-, -, 0, -)
|     (pckts,bits) in = (-, -), out = (-, -)
|     persist_mode simple, records -
+-    MEMBER 10.1.1.1:http  -  ratio 3
      (cur, max, limit, tot) = (-, -, 0, -)
      (pckts,bits) in = (-, -), out = (-, -)
+-    MEMBER 10.1.1.2:http  ADDRESS DISABLED
      (cur, max, limit, tot) = (-, -, 20, -)
      (pckts,bits) in = (-, -), out = (-, -)
`,
		"virtual 10.0.0.1:80 show": `VIRTUAL 10.0.0.1:http    ENABLED
|     use pool web
+-    TCP  - (no answer within 100ms)
      (cur, max, limit, tot) = (-, -, 0, -)
      (pckts,bits) in = (-, -), out = (-, -)
`,
		"node 10.1.1.2 show": `NODE 10.1.1.2    DISABLED
|     (cur, max, limit, tot) = (-, -, 0, -)
|     (pckts,bits) in = (-, -), out = (-, -)
+-    PORT http  ADDRESS DISABLED
      (cur, max, limit, tot) = (-, -, 0, -)
      (pckts,bits) in = (-, -), out = (-, -)
`,
	}
	for command, want := range shows {
		if r := a.command(command); r.exit != 0 || r.out != want || r.errors() != "warning: "+silent {
			t.Errorf("%s: exit %d\n%s%s", command, r.exit, r.out, r.errors())
		}
		if r := a.json(command); r.exit != 0 || !strings.Contains(r.out, `"current":0`) || r.errors() != "warning: "+silent {
			t.Errorf("%s as JSON: exit %d\n%s%s", command, r.exit, r.out, r.errors())
		}
	}
	if r := a.command("summary"); r.exit != 0 || !strings.Contains(r.out, "records = -\n") || !strings.Contains(r.out, "pools = 2\n") || r.errors() != "warning: "+silent {
		t.Errorf("summary: exit %d\n%s%s", r.exit, r.out, r.errors())
	}
	for _, command := range []string{"pool persist dump", "conn dump", "pool web persist clear", "pool web persist explain client 127.0.0.1", "persist forecast node 10.1.1.1", "stats reset"} {
		if r := a.batch(command); r.exit != 1 || !strings.HasPrefix(r.errors(), "stdin:7:3: "+silent) {
			t.Errorf("%s: exit %d\n%s%s", command, r.exit, r.out, r.errors())
		}
	}
}

func TestShow_one_of_two_is_silent(t *testing.T) {
	t.Parallel()
	dataplanes, a := showAdminWith(t, Config{AskTimeout: 200 * time.Millisecond}, 2)
	dataplanes[1].set(func() { dataplanes[1].hung = true })
	want := `POOL web    LB_MODE ratio_member
|     (cur, max, limit, tot) = (1, 2, 0, 3)
|     (pckts,bits) in = (-, 800), out = (-, 1600)
|     persist_mode simple, records 1, none 1, valid 2, bound 1
+-    MEMBER 10.1.1.1:http  UNCHECKED  ratio 3  on dp0
      (cur, max, limit, tot) = (1, 2, 0, 3)
      (pckts,bits) in = (-, 800), out = (-, 1600)
+-    MEMBER 10.1.1.1:http  -  ratio 3  on dp1
      (cur, max, limit, tot) = (-, -, 0, -)
      (pckts,bits) in = (-, -), out = (-, -)
`
	if r := a.command("pool web show"); r.exit != 0 || !strings.HasPrefix(r.out, want) || !strings.Contains(r.errors(), "warning: dataplane dp1: ") {
		t.Errorf("exit %d\n%s%s", r.exit, r.out, r.errors())
	}
	if r := a.json("pool web show"); strings.Contains(r.out, "dp1") || strings.Count(r.out, `"address":"10.1.1.1:80"`) != 1 {
		t.Errorf("as JSON:\n%s", r.out)
	}
	if r := a.command("virtual 10.0.0.1:80 show"); !strings.Contains(r.out, "TCP  IN EFFECT  on dp0\n") || !strings.Contains(r.out, "  on dp1\n") {
		t.Errorf("virtual:\n%s", r.out)
	}
	if r := a.command("node 10.1.1.1 show"); !strings.Contains(r.out, "NODE 10.1.1.1    -  on dp1\n") {
		t.Errorf("node:\n%s", r.out)
	}
}

// Several silent dataplanes take no longer than one, and a list that stops in the middle is given up too.
func TestCollect_waits_once(t *testing.T) {
	t.Parallel()
	hung := []*fakeDataplane{startFake(t), startFake(t), startFake(t), startFake(t), startFake(t), startFake(t)}
	const limit = 500 * time.Millisecond
	a := startAdminWith(t, Config{AskTimeout: limit}, "", hung...)
	a.mustLoad(showSite)
	for _, d := range hung {
		d.set(func() { d.hung = true })
	}
	for _, command := range []string{"persist dump", "pool show"} {
		started := time.Now()
		r := a.command(command)
		if took := time.Since(started); took < limit || took > 5*limit || strings.Count(r.errors(), "no answer within 500ms") != len(hung) {
			t.Errorf("%s: %v\n%s", command, took, r.errors())
		}
	}
}

// What listens where a dataplane should be is told apart from a dataplane that has faults.
func TestPush_wrong_service(t *testing.T) {
	d := newFake(t)
	l, err := net.Listen("unix", strings.TrimPrefix(d.address, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	other := grpc.NewServer()
	pb.RegisterAdminServer(other, pb.UnimplementedAdminServer{})
	done := make(chan struct{})
	go func() { defer close(done); _ = other.Serve(l) }()
	t.Cleanup(func() { other.Stop(); <-done })
	a := startAdmin(t, "", d)
	want := "what listens at " + d.address + " is not a dataplane: unknown service bigpipe.v1.Dataplane"
	if r := a.load(smallSite); r.exit != 3 || r.result.GetDataplanes()[0].GetError() != want {
		t.Errorf("exit %d %v", r.exit, r.result)
	}
	if r := a.batch("pool web persist dump"); r.exit != 1 || !strings.HasPrefix(r.errors(), "stdin:7:3: dataplane dp0: "+want+"\n") {
		t.Errorf("exit %d\n%s", r.exit, r.errors())
	}
}
