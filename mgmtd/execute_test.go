package mgmtd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
)

func TestExecute_load_is_all_or_nothing(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	before := a.must("list")
	bad := smallSite + `pool two {
   persist_mdoe simple
   member 127.0.1.1:9001
}
virtual 127.0.10.2:8080 { use pool missing }
pool web { member 127.0.1.1:80 }
sysctl -w bigip.persist_on_any_vip=7
virtual 127.0.10.300:80 { use pool web }
`
	for _, mode := range []pb.ExecuteMode{pb.ExecuteMode_EXECUTE_MODE_LOAD, pb.ExecuteMode_EXECUTE_MODE_MERGE} {
		r := a.execute(&pb.ExecuteHeader{Mode: mode, Origin: &pb.Position{File: "bigip.conf", Line: 1, Column: 1}}, bad)
		if r.exit != 2 || r.out != "" {
			t.Errorf("%v: exit %d, output %q", mode, r.exit, r.out)
		}
		for _, want := range []string{"bigip.conf:9:4: ", `did you mean "persist_mode"?`, `pool "missing" not found`, "bigip.conf:13:", "bigip.conf:14:", "bigip.conf:15:"} {
			if !strings.Contains(r.errors(), want) {
				t.Errorf("%v: no %q in\n%s", mode, want, r.errors())
			}
		}
		if after := a.must("list"); after != before || a.store.Newest().Revision != 1 {
			t.Errorf("%v changed something:\n%s", mode, after)
		}
	}
}

func TestExecute_load_replaces_and_merge_adds(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	r := a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_MERGE}, "pool more { member 127.0.1.3:9001 }")
	if r.exit != 0 || a.store.Newest().Tree.Len("pool") != 2 {
		t.Errorf("merge: %d\n%s", r.exit, r.errors())
	}
	a.mustLoad("pool only { member 127.0.1.3:9001 }\n")
	if tree := a.store.Newest().Tree; tree.Len("") != 1 || tree.Get("pool/only") == nil {
		t.Errorf("load left %d objects", tree.Len(""))
	}
}

func TestExecute_dry_run(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	dry := func(text string, output pb.OutputFormat) reply {
		return a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, DryRun: true, Output: output}, text)
	}
	if r := dry(smallSite, 0); r.exit != 0 || r.out != "" {
		t.Errorf("no difference: exit %d, output %q", r.exit, r.out)
	}
	r := dry(strings.Replace(smallSite, "300", "60", 1), 0)
	if r.exit != 1 || !strings.HasPrefix(r.out, "--- running\n+++ new\n@@ -1,") || !strings.Contains(r.out, "\n-   simple_timeout 300\n+   simple_timeout 60\n") {
		t.Errorf("a difference: exit %d, output\n%s", r.exit, r.out)
	}
	r = dry(strings.Replace(smallSite, "300", "60", 1), pb.OutputFormat_OUTPUT_FORMAT_JSON)
	if r.exit != 1 || !strings.HasPrefix(r.out, `{"different":true,"diff":"--- running\n`) {
		t.Errorf("as JSON: exit %d, output\n%s", r.exit, r.out)
	}
	if r := dry("pool x {", 0); r.exit != 2 {
		t.Errorf("faulty: exit %d", r.exit)
	}
	if a.store.Newest().Revision != 1 {
		t.Errorf("revision %d", a.store.Newest().Revision)
	}
}

func TestExecute_conflict(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	for _, text := range []string{"pool x { member 127.0.1.3:9001 }", "rollback"} {
		r := a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, BaseRevision: proto.Uint64(0)}, text)
		if r.exit != 1 || r.diagnostics[0].GetCode() != "conflict" || a.store.Newest().Revision != 1 {
			t.Errorf("%s: exit %d\n%s", text, r.exit, r.errors())
		}
	}
	r := a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, BaseRevision: proto.Uint64(1)}, "pool x { member 127.0.1.3:9001 }")
	if r.exit != 0 || r.result.GetRevision() != 2 {
		t.Errorf("the newest: %v", r.result)
	}
}

func TestExecute_exit_statuses(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	tests := []struct {
		command string
		exit    uint32
		message string
	}{
		{"pool web show", 0, ""},
		{"pool missing show", 1, "not found"},
		{"pool missing modify { persist_mode none }", 1, "not found"},
		{"pool web delete", 1, "127.0.10.1:8080"},
		{"pool web persist", 2, ""},
		{"poll web show", 2, `did you mean "pool"?`},
		{"virtual 127.0.10.9:80 use pool nowhere", 2, "nowhere"},
		{"confirm", 1, "nothing waits"},
		{"rollback 99", 1, "not found"},
		{"load bigip.conf", 2, "bigpipe"},
	}
	for _, test := range tests {
		t.Run(test.command, func(t *testing.T) {
			r := a.command(test.command)
			if r.exit != test.exit || !strings.Contains(r.errors(), test.message) {
				t.Errorf("exit %d\n%s", r.exit, r.errors())
			}
		})
	}
	if a.store.Newest().Revision != 1 {
		t.Errorf("revision %d", a.store.Newest().Revision)
	}
}

func TestExecute_history_and_rollback(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	first := a.must("list")
	a.must("pool web modify { simple_timeout 60 }")
	a.must("pool other { member 127.0.1.3:9001 }")
	out := a.must("history")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "REVISION") || !strings.HasPrefix(lines[1], "3 ") ||
		!strings.Contains(lines[2], "pool web modify") || !strings.Contains(lines[3], "root") || !strings.Contains(lines[3], "load bigip.conf") {
		t.Errorf("history:\n%s", out)
	}
	if r := a.json("history"); !strings.HasPrefix(r.out, `{"revisions":[{"number":3,"unix_seconds":`) {
		t.Errorf("history: %s", r.out)
	}
	a.must("rollback")
	if a.store.Newest().Tree.Get("pool/other") != nil {
		t.Error("rollback kept the last change")
	}
	a.must("rollback 1")
	if got := a.must("list"); got != first {
		t.Errorf("rollback 1:\n%s", got)
	}
	if n := a.store.Newest().Revision; n != 5 {
		t.Errorf("revision %d", n)
	}
}

func TestExecute_confirm(t *testing.T) {
	d := startFake(t)
	a := startAdmin(t, "", d)
	a.mustLoad(smallSite)
	h := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, ConfirmWithinSeconds: proto.Uint32(3600)}
	r := a.execute(h, "pool only { member 127.0.1.3:9001 }")
	if r.exit != 0 || !strings.Contains(r.errors(), "goes back to revision 1") {
		t.Errorf("load: %d\n%s", r.exit, r.errors())
	}
	if p := a.store.Newest().Pending; p == nil || p.BackTo != 1 {
		t.Errorf("pending: %+v", p)
	}
	// What follows waits too.
	if r := a.command("pool more { member 127.0.1.3:9001 }"); r.exit != 0 || a.store.Newest().Pending == nil || a.store.Newest().Pending.BackTo != 1 {
		t.Errorf("a later command: %d, %+v", r.exit, a.store.Newest().Pending)
	}
	a.must("confirm")
	if a.store.Newest().Pending != nil || a.store.Newest().Tree.Get("pool/only") == nil {
		t.Errorf("after confirm: %+v", a.store.Newest())
	}
}

func TestExecute_not_confirmed(t *testing.T) {
	t.Parallel()
	d := startFake(t)
	a := startAdmin(t, "", d)
	a.mustLoad(smallSite)
	h := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, ConfirmWithinSeconds: proto.Uint32(1)}
	if r := a.execute(h, "pool only { member 127.0.1.3:9001 }"); r.exit != 0 {
		t.Fatalf("load: %d\n%s", r.exit, r.errors())
	}
	eventually(t, "it goes back", func() bool { return d.has("pool/web") && !d.has("pool/only") })
	if n := a.store.Newest(); n.Pending != nil || n.Tree.Get("pool/web") == nil {
		t.Errorf("after the time: %+v", n)
	}
	if out := a.must("history"); !strings.Contains(out, "rollback to 1: not confirmed in time") {
		t.Errorf("history:\n%s", out)
	}
}

func TestExecute_not_confirmed_goes_back_past_later_changes(t *testing.T) {
	t.Parallel()
	a := startAdmin(t, "")
	h := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, ConfirmWithinSeconds: proto.Uint32(2)}
	if r := a.execute(h, smallSite); r.exit != 0 {
		t.Fatalf("load: %d\n%s", r.exit, r.errors())
	}
	a.must("pool later { member 127.0.1.3:9001 }")
	eventually(t, "it goes back", func() bool { return a.store.Newest().Tree.Len("") == 0 })
}

func TestExecute_not_confirmed_while_mgmtd_was_down(t *testing.T) {
	t.Parallel()
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	h := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, ConfirmWithinSeconds: proto.Uint32(1)}
	a.execute(h, "pool only { member 127.0.1.3:9001 }")
	a.stop()
	b := startAdmin(t, a.path)
	eventually(t, "it goes back", func() bool { return b.store.Newest().Tree.Get("pool/web") != nil })
}

func TestExecute_kept_statements(t *testing.T) {
	a := startAdmin(t, "")
	r := a.mustLoad("vlan internal { interfaces 1.1 }\nvlan external { interfaces 1.2 }\nstp one { interfaces 1.1 }\n" + smallSite)
	for _, want := range []string{"vlan: 2 statements kept, not in effect", "stp: 1 statement kept, not in effect"} {
		if strings.Count(r.errors(), want) != 1 {
			t.Errorf("no %q in\n%s", want, r.errors())
		}
	}
	if out := a.must("list"); !strings.Contains(out, "vlan external") {
		t.Errorf("list:\n%s", out)
	}
	if out := a.must("vlan show"); !strings.Contains(out, "vlan internal") || strings.Contains(out, "pool") {
		t.Errorf("vlan show:\n%s", out)
	}
}

func TestExecute_warnings(t *testing.T) {
	a := startAdmin(t, "")
	r := a.mustLoad("pool p { persist_mode simple\n   member 127.0.1.1:9001\n}\n")
	if !strings.Contains(r.errors(), "warning: bigip.conf:1:10: ") || r.diagnostics[0].GetCode() != "W-10" {
		t.Errorf("rule W-10:\n%s", r.errors())
	}
}

func TestExecute_reset(t *testing.T) {
	d := startFake(t)
	a := startAdmin(t, "", d)
	a.mustLoad(smallSite)
	a.must("sysctl -w bigip.persist_on_any_vip=1")
	a.must("reset")
	if n := a.store.Newest().Tree.Len(""); n != 0 || d.has("pool/web") || d.resets != 1 {
		t.Errorf("%d objects, %d resets of counters", n, d.resets)
	}
}

func TestExecute_sysctl_survives_a_load(t *testing.T) {
	a := startAdmin(t, "")
	a.must("sysctl -w bigip.persist_on_any_vip=1")
	a.mustLoad(smallSite)
	if out := a.must("sysctl bigip.persist_on_any_vip"); out != "bigip.persist_on_any_vip = 1\n" {
		t.Errorf("got %q", out)
	}
}

// The B-T tests of persistence that are about commands alone.
func TestPersist(t *testing.T) {
	site := `pool none { member 127.0.1.1:80 }
pool zero { persist_mode simple simple_timeout 0 member 127.0.1.1:80 }
pool sixty { persist_mode simple simple_timeout 60 member 127.0.1.1:80 }
pool ruled { member 127.0.1.1:80 }
rule r { if (client_addr equals 10.0.0.1) { use pool ruled } else { use pool ruled } }
virtual 127.0.10.1:80 { use pool none }
virtual 127.0.10.2:80 { use pool zero }
virtual 127.0.10.3:80 { use pool sixty }
virtual 127.0.10.4:80 { use rule r }
virtual 127.0.10.5:81 { use pool ruled }
`
	t.Run("B-T13_node_list_is_saved_as_a_pool", func(t *testing.T) {
		a := startAdmin(t, "")
		a.mustLoad("vip 168.1.1.1:80 {\n   define 10.1.1.1:80 10.2.2.2:80 special cookie rewrite 10d\n}\n")
		r := a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, Dialect: proto.Uint32(3)}, "list")
		const want = `pool appgen_168.1.1.1.80 {
   lb_mode round_robin
   persist_mode cookie
   cookie_mode rewrite
   cookie_expiration 10d
   member 10.1.1.1:80
   member 10.2.2.2:80
}
vip 168.1.1.1:80 { use pool appgen_168.1.1.1.80 }
`
		if r.out != want {
			t.Errorf("got\n%s", r.out)
		}
	})
	t.Run("B-T14_port_timeout", func(t *testing.T) {
		d := startFake(t)
		a := startAdmin(t, "", d)
		a.mustLoad(site)
		saved := a.must("list")
		a.must("persist 80 300")
		for pool, want := range map[string]string{"none": "simple 300", "zero": "simple 300", "sixty": "simple 60", "ruled": " 0"} {
			p := d.object("pool/" + pool).GetPool()
			if got := fmt.Sprintf("%s %d", pb.EnumWord(p.GetPersistMode()), p.GetSimpleTimeout()); got != want {
				t.Errorf("pool %s: %q, want %q", pool, got, want)
			}
		}
		if h := d.last(); h.GetSequence() != 1 || h.GetRevision() != 1 || h.GetFull() {
			t.Errorf("the push: %v", h)
		}
		if a.must("list") != saved {
			t.Error("the saved configuration has changed")
		}
		if out := a.must("pool none persist show"); !strings.Contains(out, "persist_mode simple") || !strings.Contains(out, "simple_timeout 300") {
			t.Errorf("persist show:\n%s", out)
		}
	})
	t.Run("B-19_applies_to_pools_referenced_later", func(t *testing.T) {
		d := startFake(t)
		a := startAdmin(t, "", d)
		a.mustLoad(site)
		a.must("persist 81 200")
		a.must("virtual 127.0.10.5:81 use pool none")
		if p := d.object("pool/none").GetPool(); p.GetSimpleTimeout() != 200 {
			t.Errorf("pool none: %v", p)
		}
		if p := d.object("pool/ruled").GetPool(); p.GetSimpleTimeout() != 0 {
			t.Errorf("pool ruled: %v", p)
		}
	})
	t.Run("B-19_ends_with_a_load", func(t *testing.T) {
		d := startFake(t)
		a := startAdmin(t, "", d)
		a.mustLoad(site)
		a.must("persist 80 300")
		a.mustLoad(site)
		if p := d.object("pool/none").GetPool(); p.GetSimpleTimeout() != 0 {
			t.Errorf("pool none: %v", p)
		}
	})
	t.Run("B-19_ends_with_a_restart", func(t *testing.T) {
		d := startFake(t)
		a := startAdmin(t, "", d)
		a.mustLoad(site)
		a.must("persist 80 300")
		a.stop()
		startAdmin(t, a.path, d)
		eventually(t, "it is gone", func() bool {
			return d.object("pool/none").GetPool().GetSimpleTimeout() == 0
		})
	})
	t.Run("B-T17_queries_are_refused", func(t *testing.T) {
		a := startAdmin(t, "")
		a.mustLoad(site)
		for query, want := range map[string]string{
			"vip 127.0.10.1:80 persist show":        "pool none persist show",
			"vip 127.0.10.1:80 persist dump":        "pool none persist dump",
			"vip 127.0.10.1:80 persist mask show":   "pool none persist show",
			"vip 127.0.10.1:80 sticky show":         "pool none persist show",
			"vip 127.0.10.1:80 sticky dump":         "pool none persist dump",
			"vip 127.0.10.1:80 sticky mask show":    "pool none persist show",
			"vip 127.0.10.1:80 mirror persist show": "pool none persist show",
			"persist 80 show":                       "",
		} {
			r := a.command(query)
			if r.exit == 0 || r.out != "" || !strings.Contains(r.errors(), want) {
				t.Errorf("%s: exit %d\n%s", query, r.exit, r.errors())
			}
		}
		if a.store.Newest().Revision != 1 {
			t.Errorf("revision %d", a.store.Newest().Revision)
		}
	})
	t.Run("B-22_sticky_disable_drops_the_records", func(t *testing.T) {
		d := startFake(t)
		a := startAdmin(t, "", d)
		a.mustLoad("pool p { persist_mode sticky sticky_mask 255.255.255.0 member 127.0.1.1:80 }\nvirtual 0.0.0.0:0 { use pool p }\n")
		a.must("pool p modify { persist_mode sticky disable }")
		if len(d.cleared) != 1 || d.cleared[0].GetPool() != "p" || d.cleared[0].GetMode() != pb.PersistMode_PERSIST_MODE_STICKY {
			t.Errorf("cleared %v", d.cleared)
		}
		if out := a.must("pool p sticky clear"); out != "0 cleared\n" {
			t.Errorf("sticky clear: %q", out)
		}
	})
}

func TestExecute_large_load(t *testing.T) {
	t.Parallel()
	a := startAdmin(t, "")
	var text strings.Builder
	for i := 0; text.Len() < 5<<20; i++ {
		fmt.Fprintf(&text, "# %s\npool pool%d { member 10.1.%d.%d:80 }\n", strings.Repeat("comment ", 500), i, i/250%250, i%250)
	}
	r := a.load(text.String())
	if r.exit != 0 {
		t.Fatalf("exit %d\n%s", r.exit, r.errors())
	}
	if out := a.must("list"); len(out) < 5<<20 {
		t.Errorf("%d bytes come back", len(out))
	}
	stream, err := a.client.GetConfig(context.Background(), &pb.GetConfigRequest{Prefixes: []string{"pool/"}})
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	for {
		reply, err := stream.Recv()
		if err != nil {
			break
		}
		objects += len(reply.GetObjects())
	}
	if objects != a.store.Newest().Tree.Len("pool") {
		t.Errorf("%d objects", objects)
	}
}

// A text that is too long is a fault of the text, whether the parser or the service finds it.
func TestExecute_too_large(t *testing.T) {
	t.Parallel()
	a := startAdmin(t, "")
	for _, size := range []int{maxText + 1, maxText + 1<<20} {
		r := a.load(strings.Repeat("#", size))
		want := fmt.Sprintf("bigip.conf:1:1: the text is longer than the %d bytes that are read\n", maxText)
		if r.exit != 2 || !strings.HasPrefix(r.errors(), want) || r.diagnostics[0].GetCode() != "limit" {
			t.Errorf("%d bytes: exit %d\n%s", size, r.exit, r.errors())
		}
	}
}

func TestExecute_malformed_request(t *testing.T) {
	a := startAdmin(t, "")
	for name, pieces := range map[string][]*pb.ExecuteRequest{
		"nothing":   nil,
		"no_header": {{Text: []byte("list")}},
		"no_mode":   {{Header: &pb.ExecuteHeader{}}},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := a.client.Execute(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range pieces {
				if err := stream.Send(p); err != nil {
					break
				}
			}
			stream.CloseSend()
			if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestWatchRevisions(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := a.client.WatchRevisions(ctx, &pb.WatchRevisionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for want := uint64(1); want < 4; want++ {
		r, err := stream.Recv()
		if err != nil || r.GetNumber() != want || r.GetActor() != "root" {
			t.Fatalf("got %v, %v", r, err)
		}
		a.must(fmt.Sprintf("pool p%d { member 127.0.1.1:80 }", want))
	}
}

func TestGetConfig(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	a.must("pool other { member 127.0.1.1:80 }")
	tests := map[string]struct {
		request *pb.GetConfigRequest
		want    string
	}{
		"all":      {&pb.GetConfigRequest{}, "2 pool/other pool/web virtual/127.0.10.1:8080"},
		"prefixes": {&pb.GetConfigRequest{Prefixes: []string{"pool/o", "virtual/"}}, "2 pool/other virtual/127.0.10.1:8080"},
		"older":    {&pb.GetConfigRequest{Revision: 1}, "1 pool/web virtual/127.0.10.1:8080"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			stream, err := a.client.GetConfig(context.Background(), test.request)
			if err != nil {
				t.Fatal(err)
			}
			reply, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(reply.GetRevision())
			for _, o := range reply.GetObjects() {
				got += " " + o.Key()
			}
			if got != test.want {
				t.Errorf("got %s", got)
			}
		})
	}
	stream, err := a.client.GetConfig(context.Background(), &pb.GetConfigRequest{Revision: 77})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.NotFound {
		t.Errorf("an unknown revision: %v", err)
	}
}

func TestLoad(t *testing.T) {
	path := t.TempDir() + "/config.db"
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	server, err := New(Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if ds, err := server.Load(t.Context(), File{Name: "bigip.conf", Text: []byte("pool x { use }")}); err == nil || len(ds) == 0 {
		t.Errorf("a faulty file: %v, %v", ds, err)
	}
	if _, err := server.Load(t.Context(), File{Name: "bigip.conf", Text: []byte(smallSite)}); err != nil || s.Newest().Revision != 1 {
		t.Errorf("a good file: %v", err)
	}
}
