package dataplane

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// sslSite is a site with an ssl pool of members behind the virtual server web.
func sslSite(t *testing.T, names ...string) (*site, []*greeter) {
	t.Helper()
	s := newSite(t, "", mapped)
	members := greeters(t, names...)
	if missing := s.apply(sslPool("p", members...), virtualServer(web, "p")); len(missing) > 0 {
		t.Fatal(reasons(missing))
	}
	return s, members
}

// learn makes the next member of the rotation give a session ID, and returns its name.
func (s *site) learn(virtual string, id []byte, members []*greeter) string {
	s.t.Helper()
	for _, m := range members {
		m.says(serverHello(s.t, id))
	}
	name := s.greet(virtual, hello(s.t, "min_ch_empty"))
	for _, m := range members {
		m.says(hello(s.t, "min_sh_empty"))
	}
	return name
}

func (s *site) outcomes(pool string) *pb.PersistOutcomes {
	return s.statistics(pool).GetPools()[0].GetPersistence()
}

func TestSSL(t *testing.T) {
	t.Run("A-3_whatever_the_client_s_address", func(t *testing.T) {
		s, members := sslSite(t, "s1", "s2", "s3")
		var ids [][]byte
		for i := range 3 {
			ids = append(ids, id32(byte(i+1)))
			want(t, s.learn(web, ids[i], members), fmt.Sprintf("s%d", i+1))
		}
		for range 3 {
			for i, id := range ids {
				for _, client := range []string{"127.0.0.1", "127.0.0.9"} {
					name, c := s.greetFrom(client, web, clientHello(t, id))
					c.Close()
					want(t, name, fmt.Sprintf("s%d", i+1))
				}
			}
		}
		if out := s.outcomes("p"); out.GetValid() != 18 || out.GetNone() != 3 || out.GetBound() != 3 {
			t.Errorf("counted %v", out)
		}
	})
	t.Run("A-T3_two_IDs", func(t *testing.T) { // pain 91
		s, members := sslSite(t, "s1", "s2")
		s.learn(web, idA, members)
		members[0].says(serverHello(t, id32(0xb)))
		want(t, s.greet(web, clientHello(t, idA)), "s1")
		for range 3 {
			want(t, s.greet(web, clientHello(t, idA)), "s1")
			want(t, s.greet(web, clientHello(t, id32(0xb))), "s1")
		}
	})
	t.Run("A-T4_fragments", func(t *testing.T) {
		s, members := sslSite(t, "s1", "s2")
		want(t, s.greet(web, hello(t, "min_ch_empty")), "s1")
		want(t, s.learn(web, idA, members), "s2")
		for range 3 {
			want(t, s.greet(web, hello(t, "min_ch_id32_frag10")), "s2")
			want(t, s.greet(web, bytesOf(clientHello(t, idA))...), "s2") // a millisecond apart
		}
	})
	t.Run("A-T5_ID_of_33_bytes", func(t *testing.T) {
		s, _ := sslSite(t, "s1", "s2")
		want(t, s.greet(web, hello(t, "min_ch_id33")), "s1")
		want(t, s.greet(web, hello(t, "min_ch_id33")), "s2")
		want(t, s.dump(), "")
		if out := s.outcomes("p"); out.GetMalformed() != 2 {
			t.Errorf("counted %v", out)
		}
	})
	t.Run("A-T6_server_without_ID", func(t *testing.T) {
		s, _ := sslSite(t, "s1", "s2")
		want(t, s.greet(web, clientHello(t, idA)), "s1")
		want(t, s.greet(web, clientHello(t, idA)), "s2")
		want(t, s.dump(), "")
	})
	t.Run("A-T7_TLS_1.3", func(t *testing.T) { // pain 88
		s, members := sslSite(t, "s1", "s2")
		for _, m := range members {
			m.says(hello(t, "min_sh_tls13_echo"))
		}
		want(t, s.greet(web, clientHello(t, idA)), "s1")
		want(t, s.greet(web, clientHello(t, idA)), "s2")
		want(t, s.dump(), "")
	})
	t.Run("A-T8_echo_under_a_ticket", func(t *testing.T) {
		s, members := sslSite(t, "s1", "s2")
		for _, m := range members {
			m.says(serverHello(t, idA))
		}
		want(t, s.greet(web, hello(t, "min_ch_ticket")), "s1")
		want(t, s.dump(), "")
	})
	t.Run("A-T9_echo_without_a_ticket", func(t *testing.T) {
		s, members := sslSite(t, "s1", "s2")
		want(t, s.greet(web, hello(t, "min_ch_empty")), "s1")
		members[1].says(serverHello(t, idA))
		want(t, s.greet(web, clientHello(t, idA)), "s2")
		want(t, s.dump(), fmt.Sprintf("ssl %x %s %s\n", idA, web, members[1].addr()))
		for range 3 {
			want(t, s.greet(web, clientHello(t, idA)), "s2")
		}
	})
	t.Run("A-T13_member_down", func(t *testing.T) {
		s, members := sslSite(t, "s1", "s2")
		want(t, s.learn(web, idA, members), "s1")
		s.apply(object(&pb.Node{Address: members[0].addr(), Up: proto.Bool(false)}))
		want(t, s.greet(web, clientHello(t, idA)), "s2")
		s.update(nil, []string{"node/" + members[0].addr()})
		for range 3 {
			want(t, s.greet(web, clientHello(t, idA)), "s2")
		}
	})
	t.Run("A-9_member_refuses", func(t *testing.T) {
		s, members := sslSite(t, "s1", "s2")
		want(t, s.learn(web, idA, members), "s1")
		members[0].close()
		members[1].says(serverHello(t, id32(0xb)))
		want(t, s.greet(web, clientHello(t, idA)), "s2")
		want(t, s.dump(), fmt.Sprintf("ssl %x %s %[3]s\nssl %[4]x %[2]s %[3]s\n", id32(0xb), web, members[1].addr(), idA))
	})
	t.Run("A-T14_not_TLS", func(t *testing.T) {
		s, _ := sslSite(t, "s1", "s2")
		want(t, s.greet(web, []byte("GET / HTTP/1.0\r\n\r\n")), "s1")
		want(t, s.greet(web, []byte("G")), "s2")
		if out := s.outcomes("p"); out.GetNotTls() != 2 {
			t.Errorf("counted %v", out)
		}
	})
	t.Run("A-P5_SSL_2_frame", func(t *testing.T) {
		s, members := sslSite(t, "s1", "s2")
		members[0].says(serverHello(t, idA))
		want(t, s.greet(web, hello(t, "sslv2_hello")), "s1")
		want(t, s.greet(web, clientHello(t, idA)), "s1")
	})
	t.Run("A-P7_too_long", func(t *testing.T) {
		s, _ := sslSite(t, "s1", "s2")
		record := append([]byte{22, 3, 1, 0x40, 0}, make([]byte, 1<<14)...)
		copy(record[5:], []byte{1, 0, 0xff, 0})
		long := bytes.Repeat(record, 4)
		copy(long[len(record)+5:], make([]byte, 4))
		want(t, s.greet(web, long), "s1")
		want(t, s.dump(), "")
	})
	t.Run("A-P8_known_before_the_client_hears_of_it", func(t *testing.T) {
		s, members := sslSite(t, "s1")
		for i := range 50 {
			id := id32(byte(i + 1))
			members[0].says(serverHello(t, id))
			c, err := s.dial(web)
			if err != nil {
				t.Fatal(err)
			}
			c.Write(hello(t, "min_ch_empty"))
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(s.dump(), fmt.Sprintf("%x", id)) {
				t.Fatalf("session %d is not known when its client has the first byte of it", i)
			}
			c.Close()
		}
	})
	t.Run("A-P8_alert", func(t *testing.T) {
		s, members := sslSite(t, "s1")
		members[0].says(hello(t, "alert_handshake_failure"))
		want(t, s.greet(web, clientHello(t, idA)), "s1")
		want(t, s.dump(), "")
	})
	t.Run("A-14_ticket", func(t *testing.T) {
		s, members := sslSite(t, "s1", "s2")
		answer := slices.Concat(hello(t, "tls12_ticket_0_server_first_record"), newTicket("TICK"))
		want(t, s.greet(web, hello(t, "min_ch_empty")), "s1")
		members[1].says(answer)
		want(t, s.greet(web, hello(t, "tls12_ticket_0_clienthello")), "s2")
		members[1].says(hello(t, "min_sh_empty"))
		for range 3 {
			want(t, s.greet(web, hello(t, "min_ch_ticket")), "s2")
		}
		want(t, s.dump(), fmt.Sprintf("ssl %x %s %s\n", sha256.Sum256([]byte("TICK")), web, members[1].addr()))

		p := sslPool("p", members...)
		p.GetPool().SslTickets = pb.SslTickets_SSL_TICKETS_IGNORE.Enum()
		s.apply(p)
		want(t, s.dump(), "") // nothing looks for it any more
		seen := map[string]bool{}
		members[1].says(answer)
		for range 4 {
			seen[s.greet(web, hello(t, "min_ch_ticket"))] = true
		}
		if len(seen) != 2 || s.dump() != "" {
			t.Errorf("reached %v, records %q", seen, s.dump())
		}
	})
	t.Run("pain_90_IDs_with_zeros", func(t *testing.T) {
		s, members := sslSite(t, "s1", "s2", "s3")
		start, end := id32(7), id32(7)
		start[0], end[31] = 0, 0
		for i, id := range [][]byte{make([]byte, 32), start, end} {
			want(t, s.learn(web, id, members), fmt.Sprintf("s%d", i+1))
		}
		if n := strings.Count(s.dump(), "\n"); n != 3 {
			t.Errorf("%d records", n)
		}
		for i, id := range [][]byte{make([]byte, 32), start, end} {
			want(t, s.greet(web, clientHello(t, id)), fmt.Sprintf("s%d", i+1))
		}
	})
}

// newTicket is a record with a ticket of four bytes.
func newTicket(ticket string) []byte {
	return append([]byte{22, 3, 3, 0, 14, 4, 0, 0, 10, 0, 0, 1, 0, 0, 4}, ticket...)
}

// TestSSLSplit: pain 87: hellos with IDs of all lengths, cut after each byte, come to the member that they come to unsplit.
func TestSSLSplit(t *testing.T) {
	known := []string{"s2", "s2"}
	for _, tt := range []struct {
		name  string
		hello []byte
		given int      // the length of the ID that s2 has given
		want  []string // who answers, in turn
	}{
		{"ID_of_32", clientHello(t, idA), 32, known},
		{"ID_of_32_in_small_records", hello(t, "min_ch_id32_frag10"), 32, known},
		{"ID_of_1", resized(clientHello(t, idA), 1), 1, known},
		{"ID_of_31", resized(clientHello(t, idA), 31), 31, known},
		{"no_ID", hello(t, "min_ch_empty"), 32, []string{"s1", "s2"}},
		{"ID_of_33", hello(t, "min_ch_id33"), 32, []string{"s1", "s2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, members := sslSite(t, "s1", "s2")
			want(t, s.greet(web, hello(t, "min_ch_empty")), "s1")
			for _, m := range members {
				m.says(resized(serverHello(t, idA), tt.given))
			}
			want(t, s.greet(web, hello(t, "min_ch_empty")), "s2")
			for _, m := range members {
				m.says(hello(t, "min_sh_empty"))
			}
			records := s.dump()
			for cut := range len(tt.hello) {
				name, c := s.greetFrom("", web, tt.hello[:cut], tt.hello[cut:])
				if c.Close(); name != tt.want[cut%2] {
					t.Fatalf("cut at %d: %s answers, want %s", cut, name, tt.want[cut%2])
				}
			}
			want(t, s.dump(), records)
			if n := s.outcomes("p").GetMalformed(); tt.name == "ID_of_33" && n != uint64(len(tt.hello)) || tt.name != "ID_of_33" && n != 0 {
				t.Errorf("%d hellos were malformed", n)
			}
		})
	}
}

// TestSSLSlow: clients that keep a hello back.
func TestSSLSlow(t *testing.T) {
	s := newSite(t, "", mapped)
	members := greeters(t, "s1", "s2")
	p := sslPool("p", members...)
	p.GetPool().SslHelloTimeout = proto.Uint32(1)
	s.apply(p, virtualServer(web, "p"))
	t.Run("A-T15_part_of_a_hello", func(t *testing.T) {
		start := time.Now()
		want(t, s.greet(web, clientHello(t, idA)[:20]), "s1")
		if waited := time.Since(start); waited < 900*time.Millisecond {
			t.Errorf("the rest was waited for %v", waited)
		}
		want(t, s.dump(), "")
	})
	t.Run("A-P7_nothing", func(t *testing.T) {
		before := members[0].accepted() + members[1].accepted()
		c, err := s.dial(web)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || err.Error() != "EOF" {
			t.Errorf("read %d, %v", n, err)
		}
		if n := members[0].accepted() + members[1].accepted(); n != before {
			t.Error("a member was connected to")
		}
	})
	t.Run("A-P7_end_within_the_hello", func(t *testing.T) {
		c, err := s.dial(web)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write(clientHello(t, idA)[:20])
		c.(interface{ CloseWrite() error }).CloseWrite()
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || err.Error() != "EOF" {
			t.Errorf("read %d, %v", n, err)
		}
	})
	t.Run("A-2_end_after_the_hello", func(t *testing.T) {
		name, c := s.greetFrom("", web, clientHello(t, idA))
		defer c.Close()
		c.(interface{ CloseWrite() error }).CloseWrite()
		if n, err := c.Read(make([]byte, 1)); name == "nobody" || n != 0 || err.Error() != "EOF" {
			t.Errorf("%s: read %d, %v", name, n, err)
		}
	})
	t.Run("A-2_configuration_changes_meanwhile", func(t *testing.T) {
		c, err := s.dial(web)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		b := clientHello(t, idA)
		c.Write(b[:20])
		s.apply(object(&pb.Node{Address: members[0].addr(), Up: proto.Bool(false)}))
		c.Write(b[20:])
		answer := make([]byte, len(hello(t, "min_sh_empty"))+len("@@s2\n"))
		if _, err := io.ReadFull(c, answer); err != nil || !bytes.HasSuffix(answer, []byte("@@s2\n")) {
			t.Errorf("%q, %v", answer, err)
		}
		s.update(nil, []string{"node/" + members[0].addr()})
	})
}

// TestSSLStates: pain 34 for ssl: what a client may do that has a record, none, or an open connection.
func TestSSLStates(t *testing.T) {
	for _, tt := range []struct {
		name       string
		state      *pb.Node
		none, live string // where a client without and with a record goes
	}{
		{"enabled", &pb.Node{}, "s1", "s1"},
		{"disabled", &pb.Node{Enabled: proto.Bool(false)}, "s2", "s1"},
		{"down", &pb.Node{Up: proto.Bool(false)}, "s2", "s2"},
	} {
		t.Run("pain_34_"+tt.name, func(t *testing.T) {
			s, members := sslSite(t, "s1", "s2")
			want(t, s.learn(web, idA, members), "s1")
			want(t, s.greet(web, hello(t, "min_ch_empty")), "s2")
			_, open := s.greetFrom("", web, clientHello(t, idA))
			defer open.Close()
			tt.state.Address = members[0].addr()
			s.apply(object(tt.state))
			want(t, s.greet(web, clientHello(t, id32(9))), tt.none)
			want(t, s.greet(web, clientHello(t, idA)), tt.live)
			echo(t, open, "still")
			if _, err := s.engine.ClearRecords(nil); err != nil {
				t.Fatal(err)
			}
			want(t, s.greet(web, clientHello(t, idA)), "s2") // the record is over, and it is the turn of s2
		})
	}
}
