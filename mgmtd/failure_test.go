package mgmtd

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "bigpipe/proto/bigpipe/v1"
)

// What a dataplane refuses is handed on with its code and its words; it is told apart from silence.
func TestRefusal_is_handed_on(t *testing.T) {
	t.Parallel()
	dataplanes, a := showAdminWith(t, Config{AskTimeout: 200 * time.Millisecond}, 2)
	deny := func(i int, code codes.Code, text string) {
		dataplanes[i].set(func() { dataplanes[i].deny = status.Error(code, text) })
	}
	explain := func() error {
		_, err := a.client.Explain(t.Context(), &pb.ExplainRequest{Pool: "web", Client: "127.0.0.1"})
		return err
	}
	check := func(name string, err error, code codes.Code, text string) {
		t.Helper()
		if st := status.Convert(err); st.Code() != code || st.Message() != text {
			t.Errorf("%s: %v %q, not %v %q", name, st.Code(), st.Message(), code, text)
		}
	}
	const command = "pool web persist explain client 127.0.0.1"

	deny(0, codes.NotFound, "pool web is unknown")
	check("one of two", explain(), codes.OK, "")
	if r := a.command(command); r.exit != pb.ExitDone || r.errors() != "warning: dataplane dp0: pool web is unknown\n" {
		t.Errorf("one of two: exit %d\n%s", r.exit, r.errors())
	}

	deny(1, codes.NotFound, "pool web is unknown")
	check("both alike", explain(), codes.NotFound, "pool web is unknown")
	r := a.batch(command)
	if r.exit != pb.ExitRefused || !strings.HasPrefix(r.errors(), "stdin:7:3: pool web is unknown\n") || r.diagnostics[0].GetCode() != codeNotFound {
		t.Errorf("both alike: exit %d\n%s", r.exit, r.errors())
	}
	_, err := a.client.Forecast(t.Context(), &pb.ForecastRequest{Node: "x"})
	check("forecast", err, codes.NotFound, "pool web is unknown")

	deny(1, codes.InvalidArgument, "client is no address")
	check("both in different ways", explain(), codes.Aborted, "dataplane dp0: pool web is unknown\ndataplane dp1: client is no address")
	if r := a.command(command); r.exit != pb.ExitRefused || len(r.diagnostics) != 2 || r.diagnostics[1].GetCode() != codeRefused {
		t.Errorf("both in different ways: exit %d\n%s", r.exit, r.errors())
	}

	dataplanes[1].set(func() { dataplanes[1].hung = true })
	check("one is silent", explain(), codes.Aborted, "dataplane dp0: pool web is unknown\ndataplane dp1: no answer within 200ms")
}

// A list over the API ends with an error that says which dataplane is not in it.
func TestList_is_not_whole(t *testing.T) {
	t.Parallel()
	dataplanes, a := showAdminWith(t, Config{AskTimeout: 200 * time.Millisecond}, 2)
	dataplanes[1].set(func() { dataplanes[1].hung = true })
	records, err := a.client.ListRecords(t.Context(), &pb.ListRecordsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	pieces := 0
	for _, err = records.Recv(); err == nil; _, err = records.Recv() {
		pieces++
	}
	if st := status.Convert(err); errors.Is(err, io.EOF) || st.Code() != codes.Aborted || st.Message() != "dataplane dp1: no answer within 200ms" || pieces == 0 {
		t.Errorf("%d pieces, %v", pieces, err)
	}
}

// Where nobody is bound to a member it is empty now; where a record never ends it never will be.
func TestForecast_nobody(t *testing.T) {
	d := startFake(t)
	a := startAdmin(t, "", d)
	a.mustLoad(showSite)
	d.forecast = []*pb.ForecastMember{
		{Pool: "web", Node: "10.1.1.1:80"},
		{Pool: "other", Node: "10.1.1.1:80", Clients: 2},
		{Pool: "shop", Node: "10.1.1.1:80", Connections: 3, PersistMode: pb.PersistMode_PERSIST_MODE_COOKIE},
	}
	want := "POOL   NODE           CLIENTS    LAST SEEN  EMPTY IN  CONNECTIONS  DATAPLANE\n" +
		"web    10.1.1.1:http  0          -          now       0            dp0\n" +
		"other  10.1.1.1:http  2          -          never     0            dp0\n" +
		"shop   10.1.1.1:http  by cookie  -          -         3            dp0\n"
	if got := a.must("persist forecast node 10.1.1.1"); got != want {
		t.Errorf("%s", got)
	}
	if r := a.json("persist forecast node 10.1.1.1"); !strings.Contains(r.out, `"clients":0,"last_seen_seconds":null,"empty_in_seconds":0,`) ||
		!strings.Contains(r.out, `"clients":2,"last_seen_seconds":null,"empty_in_seconds":null,`) ||
		!strings.Contains(r.out, `"persist_mode":"cookie","clients":null,"last_seen_seconds":null,"empty_in_seconds":null,"connections":3`) {
		t.Errorf("%s", r.out)
	}
}

// A dry run says what would be kept without an effect, as the load does.
func TestDryRun_kept(t *testing.T) {
	a := startAdmin(t, "")
	const text = "vlan external { }\npool web { member 10.1.1.1:80 }\n"
	dry := a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, DryRun: true, Origin: &pb.Position{File: "bigip.conf", Line: 1, Column: 1}}, text)
	loaded := a.load(text)
	if dry.exit != pb.ExitDiffers || loaded.exit != pb.ExitDone || dry.errors() != loaded.errors() || !strings.Contains(dry.errors(), "vlan: 1 statement kept, not in effect") {
		t.Errorf("exit %d\n%s\nthe load: exit %d\n%s", dry.exit, dry.errors(), loaded.exit, loaded.errors())
	}
}

// An answer over the API that lacks a dataplane names it; a command that one did not carry out says what the others did.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	dataplanes, a := showAdminWith(t, Config{AskTimeout: 200 * time.Millisecond}, 2)
	answers := map[string]func() ([]*pb.Unanswered, int, error){
		"explain": func() ([]*pb.Unanswered, int, error) {
			r, err := a.client.Explain(t.Context(), &pb.ExplainRequest{Pool: "web", Client: "127.0.0.1"})
			return r.GetUnanswered(), len(r.GetReplies()), err
		},
		"forecast": func() ([]*pb.Unanswered, int, error) {
			r, err := a.client.Forecast(t.Context(), &pb.ForecastRequest{Node: "10.1.1.1"})
			return r.GetUnanswered(), 1, err
		},
		"statistics": func() ([]*pb.Unanswered, int, error) {
			r, err := a.client.Statistics(t.Context(), &pb.StatisticsRequest{})
			return r.GetUnanswered(), 1, err
		},
	}
	for name, ask := range answers {
		if list, _, err := ask(); len(list) != 0 || err != nil {
			t.Errorf("%s of both: %v lack, %v", name, list, err)
		}
	}
	dataplanes[1].set(func() { dataplanes[1].hung = true })
	for name, ask := range answers {
		list, n, err := ask()
		if n != 1 || err != nil || len(list) != 1 || list[0].GetDataplane() != "dp1" || list[0].GetReason() != "no answer within 200ms" {
			t.Errorf("%s of one: %d answers, %v lack, %v", name, n, list, err)
		}
	}
	_, err := a.client.ClearRecords(t.Context(), &pb.ClearRecordsRequest{})
	if st := status.Convert(err); st.Code() != codes.Aborted || st.Message() != "2 cleared on the others\ndataplane dp1: no answer within 200ms" {
		t.Errorf("clear: %v", err)
	}
	dataplanes[0].set(func() { dataplanes[0].hung = true })
	_, err = a.client.ClearRecords(t.Context(), &pb.ClearRecordsRequest{})
	if st := status.Convert(err); st.Message() != "dataplane dp0: no answer within 200ms\ndataplane dp1: no answer within 200ms" {
		t.Errorf("clear on none: %v", err)
	}
}
