package tlshello

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// id is a session ID of n bytes.
func id(n int) []byte { return bytes.Repeat([]byte{0xa5}, n) }

// v2 is a hello in the frame of SSL 2.
func v2(ciphers, id, challenge int, more int) []byte {
	body := []byte{1, 3, 1, 0, byte(ciphers), byte(id >> 8), byte(id), 0, byte(challenge)}
	body = append(body, bytes.Repeat([]byte{1}, ciphers)...)
	body = append(body, bytes.Repeat([]byte{2}, id)...)
	body = append(body, bytes.Repeat([]byte{3}, challenge+more)...)
	return append([]byte{0x80 | byte(len(body)>>8), byte(len(body))}, body...)
}

func TestClient(t *testing.T) {
	hello := func(id []byte, extensions ...[]byte) []byte {
		return recordsOf(longestRecord, handshake(clientHello, clientBody(id, extensions...)))
	}
	plain := handshake(clientHello, clientBody(id(32)))
	empty := record(recordHandshake, nil)
	cut := func(b []byte, n int) []byte { return b[:len(b)-n] }
	sized := func(n int) []byte { // a hello of n bytes in all its records, by the length of an extension
		for padding := n - 200; ; padding++ {
			if b := hello(id(32), extension(21, strings.Repeat("p", padding))); len(b) == n {
				return b
			}
		}
	}
	ticketKey := fmt.Sprintf(" ticket=%x", sha256.Sum256([]byte("ticket")))
	id32 := fmt.Sprintf("complete id=%x tls13=false psk=false", id(32))
	none, malformed := "complete id= tls13=false psk=false", "malformed id= tls13=false psk=false"
	notTLS, pending, tooLong := "not_tls id= tls13=false psk=false", "pending id= tls13=false psk=false", "too_long id= tls13=false psk=false"
	for _, tt := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"A-P1_any_minor_version", append([]byte{22, 3, 0}, hello(id(32))[3:]...), id32},
		{"A-P1_major_version", append([]byte{22, 2, 0}, hello(id(32))[3:]...), notTLS},
		{"A-P1_record_too_long", []byte{22, 3, 1, 0x40, 1}, malformed},
		{"A-P2_one_byte_a_record", recordsOf(1, plain), id32},
		{"A-P2_sixteen_empty_records", append(bytes.Repeat(empty, 16), hello(id(32))...), id32},
		{"A-P2_seventeen_empty_records", append(bytes.Repeat(empty, 17), hello(id(32))...), malformed},
		{"A-P2_empty_records_between", append(append(record(22, plain[:9]), empty...), record(22, plain[9:])...), id32},
		{"A-P2_other_record_between", append(append(record(22, plain[:9]), record(21, []byte{1, 0})...), record(22, plain[9:])...), malformed},
		{"A-P2_followed_by_more", append(hello(id(32)), "anything"...), id32},
		{"A-P2_followed_in_its_record", record(22, append(bytes.Clone(plain), plain...)), id32},
		{"A-P3_extensions_missing", hello(id(32)), id32},
		{"A-P3_extensions_empty", hello(id(32), [][]byte{}...), id32},
		{"A-P3_other_message", record(22, handshake(2, clientBody(nil))), malformed},
		{"A-P4_no_ID", hello(nil), none},
		{"pain_87_ID_of_1", hello(id(1)), fmt.Sprintf("complete id=%x tls13=false psk=false", id(1))},
		{"pain_87_ID_of_31", hello(id(31)), fmt.Sprintf("complete id=%x tls13=false psk=false", id(31))},
		{"pain_87_ID_of_33", hello(id(33)), malformed},
		{"A-P4_ID_of_255", hello(id(255)), malformed},
		{"A-P5_without_ID", v2(9, 0, 32, 0), none},
		{"A-P5_ID_of_16", v2(9, 16, 16, 0), fmt.Sprintf("complete id=%x tls13=false psk=false", bytes.Repeat([]byte{2}, 16))},
		{"A-P5_ID_of_33", v2(9, 33, 16, 0), malformed},
		{"A-P5_lengths_do_not_fit", v2(9, 16, 16, 1), malformed},
		{"A-P5_too_short", []byte{0x80, 8, 1, 3, 1, 0, 0, 0, 0, 0, 0}, malformed},
		{"A-P5_other_message", []byte{0x80, 50, 4, 3, 1}, notTLS},
		{"A-P5_cut", cut(v2(9, 16, 16, 0), 1), pending},
		{"A-P5_followed_by_more", append(v2(9, 16, 16, 0), "anything"...), fmt.Sprintf("complete id=%x tls13=false psk=false", bytes.Repeat([]byte{2}, 16))},
		{"A-P6_request", []byte("GET / HTTP/1.0\r\n\r\n"), notTLS},
		{"A-P6_one_byte", []byte("S"), notTLS},
		{"A-P6_alert", []byte{21, 3, 1, 0, 2}, notTLS},
		{"A-P7_nothing", nil, pending},
		{"A-P7_cut", cut(hello(id(32)), 1), pending},
		{"A-P7_as_long_as_it_may_be", sized(LongestClient), id32},
		{"A-P7_too_long", sized(LongestClient + 1), tooLong},
		{"A-P7_says_that_it_is_too_long", record(22, []byte{clientHello, 1, 0, 1}), tooLong},
		{"A-P10_proxy_header", []byte("PROXY TCP4 127.0.0.1 127.0.0.2 1 2\r\n"), notTLS},
		{"A-P10_proxy_header_2", []byte("\r\n\r\n\x00\r\nQUIT\n\x21"), notTLS},
		{"A-14_ticket", hello(id(32), extension(35, "ticket")), id32 + ticketKey},
		{"A-14_ticket_in_small_records", recordsOf(3, handshake(clientHello, clientBody(id(32), extension(35, "ticket")))), id32 + ticketKey},
		{"A-14_empty_ticket", hello(id(32), extension(35, "")), id32},
		{"A-14_two_tickets", hello(id(32), extension(35, "ticket"), extension(35, "ticket")), malformed},
		{"A-13_offers_TLS_1.3", hello(nil, extension(43, "\x04\x03\x04\x03\x03"), extension(41, "x")), "complete id= tls13=true psk=true"},
		{"versions_without_TLS_1.3", hello(nil, extension(43, "\x04\x03\x02\x03\x03")), none},
		{"versions_of_odd_length", hello(nil, extension(43, "\x03\x03\x04\x03")), malformed},
		{"versions_empty", hello(nil, extension(43, "\x00")), malformed},
		{"versions_missing", hello(nil, extension(43, "")), malformed},
		{"versions_longer_than_they_are", hello(nil, extension(43, "\x04\x03\x04")), malformed},
		{"extension_longer_than_the_message", hello(nil, []byte{0, 35, 0, 5, 'a'}), malformed},
		{"extensions_end_early", record(22, handshake(clientHello, append(clientBody(nil, extension(0, "")), 0))), malformed},
		{"half_an_extension", hello(nil, []byte{0, 35, 0}), malformed},
		{"message_ends_in_the_random", record(22, handshake(clientHello, clientBody(nil)[:20])), malformed},
		{"message_ends_in_the_ID", record(22, handshake(clientHello, clientBody(id(32))[:50])), malformed},
		{"message_ends_after_the_ID", record(22, handshake(clientHello, clientBody(id(32))[:67])), malformed},
		{"message_without_bytes", record(22, handshake(clientHello, nil)), malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := readClient(tt.bytes); got != tt.want {
				t.Errorf("found %s, want %s", got, tt.want)
			}
			if len(tt.bytes) < 1000 {
				everySplit(t, tt.bytes, readClient)
			} else if got := readClient(pieces(tt.bytes, 1)...); got != tt.want {
				t.Errorf("byte by byte: found %s, want %s", got, tt.want)
			}
		})
	}
}

func TestServer(t *testing.T) {
	answers := func(messages ...[]byte) []byte { return bytes.Join(messages, nil) }
	tickets := extension(35, "")
	hello := handshake(serverHello, serverBody(id(32), tickets))
	certificates := handshake(11, bytes.Repeat([]byte("certificate"), 300))
	ticket := handshake(newSessionTicket, ticketBody("ticket"))
	changed := record(20, []byte{1})
	ticketKey := fmt.Sprintf(" ticket=%x", sha256.Sum256([]byte("ticket")))
	id32 := fmt.Sprintf("hello=true id=%x tls13=false done=", id(32))
	const nothing = "hello=false id= tls13=false done=true"
	for _, tt := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"A-P8_alert", record(21, []byte{2, 40}), nothing},
		{"A-P8_something_else", []byte("220 ready\r\n"), nothing},
		{"A-P8_application_data", record(23, []byte("data")), nothing},
		{"A-P8_hello_request_first", recordsOf(100, answers(handshake(helloRequest, nil), hello)), id32 + "false"},
		{"A-P8_hello_request_with_bytes", recordsOf(100, answers(handshake(helloRequest, []byte{0}), hello)), nothing},
		{"A-P8_other_message_first", recordsOf(100, answers(certificates, hello)), nothing},
		{"A-P8_ID_of_33", record(22, handshake(serverHello, serverBody(id(33)))), nothing},
		{"A-P8_no_ID", record(22, handshake(serverHello, serverBody(nil))), "hello=true id= tls13=false done=true"},
		{"A-P8_TLS_1.3", record(22, handshake(serverHello, serverBody(id(32), extension(43, "\x03\x04")))), fmt.Sprintf("hello=true id=%x tls13=true done=true", id(32))},
		{"A-P8_TLS_1.2_by_extension", record(22, handshake(serverHello, serverBody(id(32), extension(43, "\x03\x03")))), id32 + "true"},
		{"A-P8_versions_malformed", record(22, handshake(serverHello, serverBody(id(32), extension(43, "\x03\x03\x04")))), nothing},
		{"A-P8_extensions_malformed", record(22, handshake(serverHello, serverBody(id(32), []byte{0, 1, 0, 9}))), nothing},
		{"A-12_stops_after_the_hello", record(22, answers(handshake(serverHello, serverBody(id(32))), ticket)), id32 + "true"},
		{"A-14_resumed", answers(record(22, answers(hello, ticket)), changed), id32 + "true" + ticketKey},
		{"A-14_all_in_one_record", record(22, answers(hello, certificates[:4+3300], handshake(14, nil), ticket)), id32 + "true" + ticketKey},
		{"A-14_small_records", answers(recordsOf(37, answers(hello, certificates, handshake(14, nil))), recordsOf(5, ticket), changed), id32 + "true" + ticketKey},
		{"A-14_no_ticket_comes", answers(record(22, hello), changed, record(22, ticket)), id32 + "true"},
		{"A-14_empty_ticket", record(22, answers(hello, handshake(newSessionTicket, ticketBody("")))), id32 + "true"},
		{"A-14_lengths_do_not_fit", record(22, answers(hello, handshake(newSessionTicket, append(ticketBody("ticket"), 0)))), id32 + "true"},
		{"A-14_too_much_before_it", answers(record(22, hello), bytes.Repeat(recordsOf(longestRecord, handshake(11, make([]byte, longestRecord-4))), 17), record(22, ticket)), id32 + "true"},
		{"A-P2_empty_records", answers(record(22, nil), record(22, hello)), id32 + "false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := readServer(tt.bytes); got != tt.want {
				t.Errorf("found %s, want %s", got, tt.want)
			}
			if len(tt.bytes) < 10000 {
				everySplit(t, tt.bytes, readServer)
			} else if got := readServer(pieces(tt.bytes, 1)...); got != tt.want {
				t.Errorf("byte by byte: found %s, want %s", got, tt.want)
			}
		})
	}
}

// TestServerIgnoresTickets: without Tickets the hello is all that is read.
func TestServerIgnoresTickets(t *testing.T) {
	var s Server
	b := record(22, append(handshake(serverHello, serverBody(id(32), extension(35, ""))), handshake(newSessionTicket, ticketBody("ticket"))...))
	if news := s.Feed(b); news != NewSession || !s.Done() {
		t.Errorf("news %b, done %t", news, s.Done())
	}
}

// TestNoMemory: reading a hello that is not cut within its ticket allocates nothing.
func TestNoMemory(t *testing.T) {
	hello, answer := vector(t, "tls12_ticket_1_clienthello.hex"), vector(t, "tls12_noticket_0_server_first_record.hex")
	var c Client
	var s Server
	n := testing.AllocsPerRun(100, func() {
		c.Reset()
		s.Reset()
		c.Feed(hello)
		s.Feed(answer)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
