package dataplane

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// TestSSLScopes: rule B-17: SSL records obey the scopes of simple ones, by the session ID.
func TestSSLScopes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		globals *pb.Global
		scope   string // of the record
		at      string // who is reached with the ID on the other virtual server, whose turn is s3's
		address string
	}{
		{"B-1_each_alone", &pb.Global{}, web, "t1", shop},
		{"B-2_same_address", &pb.Global{PersistAcrossServices: proto.Bool(true)}, "10.0.0.1:*", "t2", shop},
		{"B-2_other_address", &pb.Global{PersistAcrossServices: proto.Bool(true)}, "10.0.0.1:*", "t1", other},
		{"B-3_any_address", &pb.Global{PersistAcrossVirtuals: proto.Bool(true)}, "", "t2", other},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, "", mapped)
			// The nodes of the pools differ in their ports only (rule B-5); t2 is the one at the address of s2.
			pair := func(address string) (a, b *greeter) {
				return newGreeterAt(t, address, "s"+address[len(address)-1:]), newGreeterAt(t, address, "t"+address[len(address)-1:])
			}
			s1, t1 := pair("127.0.9.1")
			s2, t2 := pair("127.0.9.2")
			s.apply(object(tt.globals), sslPool("p", s1, s2), sslPool("q", t1, t2), virtualServer(web, "p"), virtualServer(tt.address, "q"))
			want(t, s.greet(web, hello(t, "min_ch_empty")), "s1")
			want(t, s.learn(web, idA, []*greeter{s1, s2}), "s2")
			want(t, s.dump(), fmt.Sprintf("ssl %x %s %s\n", idA, tt.scope, s2.addr()))
			want(t, s.greet(tt.address, clientHello(t, idA)), tt.at)
			want(t, s.greet(web, clientHello(t, idA)), "s2")
		})
	}
	t.Run("B-7_node_is_not_in_the_other_pool", func(t *testing.T) {
		s := newSite(t, "", mapped)
		s1, t1 := newGreeterAt(t, "127.0.9.1", "s1"), newGreeterAt(t, "127.0.9.3", "t1")
		s.apply(object(&pb.Global{PersistAcrossVirtuals: proto.Bool(true)}), sslPool("p", s1), sslPool("q", t1),
			virtualServer(web, "p"), virtualServer(other, "q"))
		want(t, s.learn(web, idA, []*greeter{s1}), "s1")
		before := s.dump()
		want(t, s.greet(other, clientHello(t, idA)), "t1")
		want(t, s.dump(), before)
		if out := s.outcomes("q"); out.GetOtherPool() != 1 {
			t.Errorf("counted %v", out)
		}
	})
}

// TestSSLOperator: records are listed, explained, foretold and cleared by the text of the ID.
func TestSSLOperator(t *testing.T) {
	s, members := sslSite(t, "s1", "s2")
	want(t, s.learn(web, idA, members), "s1")
	key := fmt.Sprintf("%x", idA)
	list, err := s.engine.Records(&pb.RecordFilter{Client: &key, Mode: pb.PersistMode_PERSIST_MODE_SSL.Enum()})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r := range list {
		n++
		if r.GetPool() != "p" || r.GetKey() != key || r.GetVirtual() != web || r.GetNode() != members[0].addr() || r.GetExpiresInSeconds() < 590 {
			t.Errorf("record %v", r)
		}
	}
	want(t, fmt.Sprint(n), "1")
	explain := func(session string) string {
		t.Helper()
		reply, err := s.engine.Explain(&pb.ExplainRequest{Pool: "p", Client: "127.0.0.9", Session: &session})
		if err != nil {
			return err.Error()
		}
		return reply.GetMember() + " " + reply.GetOutcome() + " " + strings.Join(reply.GetSteps(), "; ")
	}
	if got := explain(key); !strings.HasPrefix(got, members[0].addr()+" valid ") || !strings.Contains(got, "the record of "+key+" on "+web) {
		t.Error(got)
	}
	if got := explain("0b"); !strings.HasPrefix(got, members[1].addr()+" none ") || !strings.Contains(got, "no record of 0b on "+web) {
		t.Error(got)
	}
	if got := explain("x"); got != `session "x" is not an ID in hex, of up to 32 bytes` {
		t.Error(got)
	}
	reply, err := s.engine.Explain(&pb.ExplainRequest{Pool: "p", Client: "127.0.0.9"})
	if err != nil || reply.GetOutcome() != "none" || !strings.Contains(strings.Join(reply.GetSteps(), "; "), "no session is known") {
		t.Errorf("%v, %v", reply, err)
	}
	forecast, err := s.engine.Forecast(members[0].addr())
	if err != nil || len(forecast.GetMembers()) != 1 || forecast.GetMembers()[0].GetClients() != 1 || forecast.GetMembers()[0].GetEmptyInSeconds() < 590 {
		t.Errorf("forecast %v, %v", forecast, err)
	}
	if n, err := s.engine.ClearRecords(&pb.RecordFilter{Client: &key}); n != 1 || err != nil {
		t.Errorf("%d cleared, %v", n, err)
	}
	want(t, s.greet(web, clientHello(t, idA)), "s2")
}

// TestSSLChanges: records follow the configuration of their pool, and go with the mode.
func TestSSLChanges(t *testing.T) {
	s, members := sslSite(t, "s1", "s2")
	want(t, s.learn(web, idA, members), "s1")
	want(t, s.learn(web, id32(2), members), "s2")
	expiries := func() string {
		list, err := s.engine.Records(nil)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for r := range list {
			text += fmt.Sprintf("%s:%d ", map[string]string{members[0].addr(): "s1", members[1].addr(): "s2"}[r.GetNode()], (r.GetExpiresInSeconds()+50)/100)
		}
		return text
	}
	want(t, expiries(), "s2:6 s1:6 ")
	p := sslPool("p", members...)
	p.GetPool().SslTimeout, p.GetPool().Members[0].Tmout = proto.Uint32(1000), proto.Uint32(2000)
	s.apply(p)
	want(t, expiries(), "s2:10 s1:20 ")
	want(t, s.learn(web, id32(3), members), "s1")
	want(t, expiries(), "s2:10 s1:20 s1:20 ")
	p = sslPool("p", members...)
	s.apply(p)
	want(t, expiries(), "s2:6 s1:6 s1:6 ")
	s.apply(plainPool("p", members[0].addr(), members[1].addr()))
	want(t, expiries(), "")
}

// TestSSLFallback: with ssl_fallback simple a client whose hello brings nothing known is persisted by its address.
func TestSSLFallback(t *testing.T) {
	s, members := sslSite(t, "s1", "s2")
	p := sslPool("p", members...)
	p.GetPool().SslFallback = pb.SslFallback_SSL_FALLBACK_SIMPLE.Enum()
	s.apply(p)
	for _, m := range members {
		m.says(hello(t, "min_sh_tls13_echo"))
	}
	at := func(client string, b []byte) string {
		name, c := s.greetFrom(client, web, b)
		c.Close()
		return name
	}
	for range 3 { // pain 88, rule A-13
		want(t, at("127.0.0.8", hello(t, "tls13_0_clienthello")), "s1")
		want(t, at("127.0.0.9", hello(t, "tls13_1_clienthello")), "s2")
	}
	want(t, s.dump(), fmt.Sprintf("simple 127.0.0.8 %s %s\nsimple 127.0.0.9 %[1]s %[3]s\n", web, members[0].addr(), members[1].addr()))
	// A session is stronger than the address.
	members[0].says(serverHello(t, idA))
	want(t, at("127.0.0.8", hello(t, "min_ch_empty")), "s1")
	want(t, at("127.0.0.9", clientHello(t, idA)), "s1")
	// What is no TLS has neither.
	members[0].says(nil)
	members[1].says(nil)
	if a, b := at("127.0.0.8", []byte("GET")), at("127.0.0.8", []byte("GET")); a == b {
		t.Errorf("both went to %s", a)
	}
}

// TestHandOverSSL: the records of sessions and tickets go over to the next process.
func TestHandOverSSL(t *testing.T) {
	dir := t.TempDir()
	members := greeters(t, "s1", "s2")
	first := startProcess(t, dir)
	first.apply(sslPool("p", members...), virtualServer(web, "p"))
	want(t, first.greet(web, hello(t, "min_ch_empty")), "s1")
	want(t, first.learn(web, idA, members), "s2")
	want(t, first.greet(web, hello(t, "min_ch_empty")), "s1")
	members[1].says(append(hello(t, "tls12_ticket_0_server_first_record"), newTicket("TICK")...))
	want(t, first.greet(web, hello(t, "tls12_ticket_0_clienthello")), "s2")
	members[1].says(hello(t, "min_sh_empty"))
	before := first.dump()
	second := first.succeed(dir)
	<-first.done
	want(t, second.dump(), before)
	for range 3 {
		want(t, second.greet(web, clientHello(t, idA)), "s2")
		want(t, second.greet(web, hello(t, "min_ch_ticket")), "s2")
	}
}

// TestSSLSplit_sticks: a client with a session goes back to the pool of a split that gave it.
func TestSSLSplit_sticks(t *testing.T) {
	s := newSite(t, "", mapped)
	members := greeters(t, "s1", "s2")
	s.apply(sslPool("p", members[0]), sslPool("q", members[1]), object(&pb.VirtualServer{
		Address:     web,
		Pools:       []*pb.WeightedPool{{Pool: "p", Weight: proto.Uint32(50)}, {Pool: "q", Weight: proto.Uint32(50)}},
		SplitSticks: proto.Bool(true),
	}))
	a, b := s.learn(web, idA, members), s.learn(web, id32(2), members)
	if a == b {
		t.Errorf("an even split sends two clients to %s", a)
	}
	for range 6 {
		want(t, s.greet(web, clientHello(t, idA)), a)
		want(t, s.greet(web, clientHello(t, id32(2))), b)
	}
}
