package mgmtd

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
)

// batch runs a text as a line of standard input.
func (a *admin) batch(text string) reply {
	a.t.Helper()
	return a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, Origin: &pb.Position{File: "stdin", Line: 7, Column: 3}}, text)
}

// The statuses 1 and 2 mean that nothing was changed: a text is refused whole, at the place of the command that cannot be
// carried out.
func TestExecute_refused_whole(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	const change = "pool z1 { member 10.1.1.1:80 }\n"
	tests := []struct {
		command string
		exit    uint32
		message string
	}{
		{"load x", 2, "carried out by bigpipe"},
		{"merge x", 2, "carried out by bigpipe"},
		{"save x", 2, "carried out by bigpipe"},
		{"verify load x", 2, "carried out by bigpipe"},
		{"confirm", 1, "nothing waits to be confirmed"},
		{"rollback 99999", 1, "revision 99999: no such revision: not found in the history"},
		{"rollback 2", 1, "revision 2: no such revision"},
		{"rollback\n  confirm", 1, "nothing waits to be confirmed"},
		{"sysctl bigip.nosuch", 1, "variable bigip.nosuch not found"},
		{"config sync", 2, "carried out by bigpipe"},
		{"failover standby", 1, "there is no other unit that could take over"},
		{"makecookie 10.1.1.1:80", 1, "no cookie can be made"},
	}
	for _, test := range tests {
		for _, text := range []string{test.command, change + test.command, "pool web show\n" + test.command} {
			t.Run(text, func(t *testing.T) {
				r := a.batch(text)
				if r.exit != test.exit || r.out != "" || !strings.Contains(r.errors(), test.message) {
					t.Errorf("exit %d, output %q\n%s", r.exit, r.out, r.errors())
				}
				lines := strings.Split(text, "\n")
				at, last := "stdin:7:3: ", len(lines)-1
				if last > 0 {
					at = fmt.Sprintf("stdin:%d:%d: ", 7+last, 1+strings.Index(lines[last], strings.TrimSpace(lines[last])))
				}
				if !strings.HasPrefix(r.errors(), at) || !strings.Contains(r.errors(), strings.TrimSpace(lines[last])+"\n") {
					t.Errorf("the place is not %s:\n%s", at, r.errors())
				}
				if n := a.store.Newest().Revision; n != 1 {
					t.Fatalf("revision %d", n)
				}
			})
		}
	}
}

func TestExecute_commands_beside_a_change(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	a.must("pool z1 { member 10.1.1.1:80 }\nsysctl -w bigip.persist_on_any_vip=1\nsysctl bigip.persist_on_any_vip")
	a.must("pool z2 { member 10.1.1.1:80 }\nrollback 1")
	if tree := a.store.Newest().Tree; tree.Get("pool/z1") != nil || tree.Get("pool/z2") != nil {
		t.Error("the rollback is not the last word")
	}
	h := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, ConfirmWithinSeconds: proto.Uint32(3600)}
	if r := a.execute(h, "pool z3 { member 10.1.1.1:80 }\nconfirm"); r.exit != 0 || a.store.Newest().Pending != nil {
		t.Errorf("exit %d, %+v\n%s", r.exit, a.store.Newest().Pending, r.errors())
	}
}

// The change of a text may push the revision out of the history that its rollback names.
func TestExecute_rollback_to_the_end_of_the_history(t *testing.T) {
	t.Parallel()
	a := startAdmin(t, "")
	for i := range store.HistoryLimit {
		a.must(fmt.Sprintf("pool p { member 10.1.1.1:80 ratio %d }", i+2))
	}
	if r := a.command("pool z { member 10.1.1.1:80 }\nrollback"); r.exit != 0 { // one back, which is always there
		t.Fatalf("exit %d\n%s", r.exit, r.errors())
	}
	newest := a.store.Newest().Revision
	oldest := newest - store.HistoryLimit
	for _, text := range []string{
		fmt.Sprintf("pool z { member 10.1.1.1:80 }\nrollback %d", oldest),
		fmt.Sprintf("rollback %d\nrollback %d", newest-5, oldest),
	} {
		if r := a.command(text); r.exit != 1 || a.store.Newest().Revision != newest {
			t.Errorf("%s: exit %d, revision %d of %d\n%s", text, r.exit, a.store.Newest().Revision, newest, r.errors())
		}
	}
	a.must(fmt.Sprintf("rollback %d", oldest))
}

// What no dataplane answers after a change was stored is not status 1.
func TestExecute_stored_and_not_answered(t *testing.T) {
	t.Parallel()
	d := newFake(t)
	a := startAdmin(t, "", d)
	eventually(t, "an attempt", func() bool { s, _ := a.server.pushers[0].current(); return s.err != "" })
	a.load(smallSite)
	for i, command := range []string{"pool web persist dump", "pool web persist clear", "conn dump", "pool web stats reset"} {
		r := a.json(fmt.Sprintf("pool z%d { member 10.1.1.1:80 }\n%s", i, command))
		if r.exit != 3 || a.store.Newest().Tree.Get(fmt.Sprint("pool/z", i)) == nil {
			t.Errorf("%s: exit %d\n%s", command, r.exit, r.errors())
		}
		if !strings.HasPrefix(r.out, "{") || !strings.HasSuffix(r.out, "}\n") {
			t.Errorf("%s: not a document: %s", command, r.out)
		}
		if r := a.batch(command); r.exit != 1 || !strings.HasPrefix(r.errors(), "stdin:7:3: dataplane dp0: ") {
			t.Errorf("%s alone: exit %d\n%s", command, r.exit, r.errors())
		}
	}
}

func TestExecute_conflict_has_a_place(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	h := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, BaseRevision: proto.Uint64(0), Origin: &pb.Position{File: "stdin", Line: 2, Column: 1}}
	if r := a.execute(h, "pool web delete"); r.exit != 1 || !strings.HasPrefix(r.errors(), "stdin:2:1: conflict: ") {
		t.Errorf("exit %d\n%s", r.exit, r.errors())
	}
}

// Of very many commands that cannot be carried out the first are told, and how many more there are.
func TestExecute_refused_many(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	for _, command := range []string{"confirm", "rollback 99999", "sysctl bigip.nosuch"} {
		r := a.batch(strings.Repeat(command+"\n", 20000))
		n := len(r.diagnostics)
		if r.exit != 1 || n != refusalsShown+1 || r.diagnostics[n-1].GetMessage() != "19950 more faults are not shown" {
			t.Errorf("%s: exit %d, %d diagnostics, the last is %v", command, r.exit, n, r.diagnostics[n-1])
		}
	}
}

// Where a client says that its text begins costs nothing, however far that is; names that are no names are refused.
func TestExecute_origin_far_away(t *testing.T) {
	a := startAdmin(t, "")
	for _, text := range []string{"confirm", "pool { } }", "pool x show", "virtual 10.0.0.1:80 { use pool nosuch }"} {
		far := &pb.Position{File: "stdin", Line: 1 << 31, Column: 1<<32 - 1000}
		r := a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, Origin: far}, text)
		if r.exit == 0 || len(r.diagnostics) == 0 || r.diagnostics[0].GetSource() != "" {
			t.Errorf("%s: exit %d, %v", text, r.exit, r.diagnostics)
		}
	}
	long := strings.Repeat("x", maxName+1)
	for _, h := range []*pb.ExecuteHeader{{Origin: &pb.Position{File: long}}, {Actor: long}} {
		h.Mode = pb.ExecuteMode_EXECUTE_MODE_COMMAND
		stream, err := a.client.Execute(t.Context())
		if err == nil {
			err = stream.Send(&pb.ExecuteRequest{Header: h, Text: []byte("version")})
		}
		if err == nil {
			_ = stream.CloseSend()
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("a name of %d bytes: %v", len(long), err)
		}
	}
}
