package http1

import (
	"errors"
	"strings"
	"testing"
)

const chunkedLine = "Transfer-Encoding: chunked"

// smuggled follows each request. No member may see it behind one that is refused.
var smuggled = message("GET /smuggled HTTP/1.1", "Host: h")

type requestTest struct {
	name   string
	in     string
	status int    // of the answer if it is refused
	out    string // what is forwarded if it is not; "same" is: in, byte for byte
}

// requestTests are the rows of the edge table and the rulings below it.
var requestTests = []requestTest{
	{"5a-1_CL_and_TE", post("Content-Length: 5", chunkedLine) + "0\r\n\r\n", 400, ""},
	{"5a-1_TE_and_CL", post(chunkedLine, "Content-Length: 5") + "0\r\n\r\n", 400, ""},
	{"5a-1_empty_CL_beside_TE", post("Content-Length:", chunkedLine) + "0\r\n\r\n", 400, ""},
	{"5a-2_CL_twice_same", post("Content-Length: 1", "content-length: 1") + "a", 400, ""},
	{"5a-3_CL_twice_different", post("Content-Length: 1", "Content-Length: 2") + "ab", 400, ""},
	{"5a-4_CL_list", post("Content-Length: 1, 1") + "a", 400, ""},
	{"5a-5_CL_plus", post("Content-Length: +1") + "a", 400, ""},
	{"5a-5_CL_minus", post("Content-Length: -1") + "a", 400, ""},
	{"5a-5_CL_hex", post("Content-Length: 0x1") + "a", 400, ""},
	{"5a-5_CL_empty", post("Content-Length:"), 400, ""},
	{"5a-5_CL_blank", post("Content-Length: \t "), 400, ""},
	{"5a-5_CL_2_64_plus_1", post("Content-Length: 18446744073709551617") + "a", 400, ""},
	{"5a-5_CL_2_63", post("Content-Length: 9223372036854775808") + "a", 400, ""},
	{"5a-5_CL_space_before_colon", post("Content-Length : 1") + "a", 400, ""},
	{"5a-5_CL_inner_space", post("Content-Length: 1 1") + "a", 400, ""},
	{"5a-5_CL_full_width_digit", post("Content-Length: \xef\xbc\x91") + "a", 400, ""},
	{"5a-6_CL_01", post("Content-Length: 01") + "a", 0, post("Content-Length: 1") + "a"},
	{"5a-6_CL_000", post("content-length:000"), 0, post("content-length: 0")},
	{"5a-6_CL_tab", post("Content-Length:\t1 ") + "a", 0, post("Content-Length: 1") + "a"},
	{"5a-6_CL_only_tab", post("Content-Length:\t1") + "a", 0, post("Content-Length: 1") + "a"},
	{"5a-6_CL_many_zeros", post("Content-Length: 0000000000000000000000001") + "a", 0, post("Content-Length: 1") + "a"},
	{"5a-6_CL_plain_kept", post("CONTENT-length:1", "A: b") + "a", 0, "same"},
	{"5a-7_TE_twice", post(chunkedLine, chunkedLine) + "0\r\n\r\n", 400, ""},
	{"5a-7_TE_chunked_identity", post("Transfer-Encoding: chunked, identity") + "0\r\n\r\n", 400, ""},
	{"5a-7_TE_chunked_chunked", post("Transfer-Encoding: chunked, chunked") + "0\r\n\r\n", 400, ""},
	{"5a-7_TE_gzip_chunked_gzip", post("Transfer-Encoding: gzip, chunked, gzip") + "0\r\n\r\n", 400, ""},
	{"5a-7_TE_gzip", post("Transfer-Encoding: gzip") + "0\r\n\r\n", 400, ""},
	{"5a-7_TE_identity", post("Transfer-Encoding: identity"), 400, ""},
	{"5a-7_TE_gzip_chunked", post("Transfer-Encoding: gzip, chunked") + "0\r\n\r\n", 501, ""},
	{"5a-7_TE_xchunked", post("Transfer-Encoding: xchunked") + "0\r\n\r\n", 501, ""},
	{"5a-7_TE_quoted", post(`Transfer-Encoding: "chunked"`) + "0\r\n\r\n", 501, ""},
	{"5a-7_TE_parameter", post("Transfer-Encoding: chunked;q=1") + "0\r\n\r\n", 501, ""},
	{"5a-7_TE_empty_element_first", post("Transfer-Encoding: ,chunked") + "0\r\n\r\n", 400, ""},
	{"5a-7_TE_empty_element_last", post("Transfer-Encoding: chunked,") + "0\r\n\r\n", 400, ""},
	{"5a-7_TE_empty", post("Transfer-Encoding:") + "0\r\n\r\n", 400, ""},
	{"5a-7_TE_VT_before", post("Transfer-Encoding: \vchunked") + "0\r\n\r\n", 400, ""},
	{"5a-7_TE_NBSP_before", post("Transfer-Encoding: \xa0chunked") + "0\r\n\r\n", 501, ""},
	{"5a-7_TE_tab_and_case", post("transfer-encoding:\tChunked ") + "0\r\n\r\n", 0, post("transfer-encoding: chunked") + "0\r\n\r\n"},
	{"5a-8_TE_in_HTTP10", message("POST / HTTP/1.0", chunkedLine) + "abc", 400, ""},
	{"5a-9_chunk_size_0x1", post(chunkedLine) + "0x1\r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-9_chunk_size_plus", post(chunkedLine) + "+1\r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-9_chunk_size_space_before", post(chunkedLine) + " 1\r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-9_chunk_size_minus", post(chunkedLine) + "-1\r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-9_chunk_size_empty", post(chunkedLine) + "\r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-9_chunk_size_only_extension", post(chunkedLine) + ";a\r\n\r\n", 400, ""},
	{"5a-9_chunk_size_17_digits", post(chunkedLine) + "00000000000000001\r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-9_chunk_size_2_63", post(chunkedLine) + "8000000000000000\r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-9_chunk_size_16_digits", post(chunkedLine) + "0000000000000001\r\na\r\n0\r\n\r\n", 0, post(chunkedLine) + "1\r\na\r\n0\r\n\r\n"},
	{"5a-9_second_chunk", post(chunkedLine) + "1\r\na\r\n0x1\r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-10_chunk_size_LF", post(chunkedLine) + "1\na\r\n0\r\n\r\n", 400, ""},
	{"5a-10_chunk_size_CR", post(chunkedLine) + "1\ra\r\n0\r\n\r\n", 400, ""},
	{"5a-10_extension_LF", post(chunkedLine) + "1;a=b\na\r\n0\r\n\r\n", 400, ""},
	{"5a-10_extension_CR", post(chunkedLine) + "1;a=\rb\r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-10_extension_NUL", post(chunkedLine) + "1;a=\x00\r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-10_data_without_CRLF", post(chunkedLine) + "1\r\na0\r\n\r\n", 400, ""},
	{"5a-10_data_with_LF", post(chunkedLine) + "1\r\na\n0\r\n\r\n", 400, ""},
	{"5a-10_data_with_CR", post(chunkedLine) + "1\r\na\r0\r\n\r\n", 400, ""},
	{"5a-10_last_chunk_LF", post(chunkedLine) + "1\r\na\r\n0\n\r\n", 400, ""},
	{"5a-10_end_LF", post(chunkedLine) + "0\r\n\n", 400, ""},
	{"5a-10_end_CR", post(chunkedLine) + "0\r\n\rX", 400, ""},
	{"5a-11_space_after_size", post(chunkedLine) + "1 \r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-11_space_before_extension", post(chunkedLine) + "1 ;a=b\r\na\r\n0\r\n\r\n", 400, ""},
	{"5a-11_extension_dropped", post(chunkedLine) + "1;a=b\r\na\r\n2; x=\"y\"\r\nbc\r\n0;last\r\n\r\n", 0, post(chunkedLine) + "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"},
	{"5a-11_upper_case_size", post(chunkedLine) + "A\r\n0123456789\r\n000\r\n\r\n", 0, post(chunkedLine) + "a\r\n0123456789\r\n0\r\n\r\n"},
	{"5a-12_trailer_CL", post(chunkedLine) + "0\r\nContent-Length: 9\r\n\r\n", 0, post(chunkedLine) + "0\r\n\r\n"},
	{"5a-12_trailer_cookie", post(chunkedLine) + "1\r\na\r\n0\r\nX-Sum: 1\r\nCookie: N=C2\r\nY:2\r\nSET-cookie: a=b\r\n\r\n", 0, post(chunkedLine) + "1\r\na\r\n0\r\nX-Sum: 1\r\nY:2\r\n\r\n"},
	{"5a-12_trailer_framing_and_routing", post(chunkedLine) + "0\r\nTransfer-Encoding: chunked\r\nHost: x\r\nConnection: x\r\nX-Forwarded-For: 1.1.1.1\r\nProxy-jroute: R1\r\n\r\n", 0, post(chunkedLine) + "0\r\n\r\n"},
	{"5a-12_trailer_LF", post(chunkedLine) + "0\r\nX: 1\n\r\n", 400, ""},
	{"5a-12_trailer_no_colon", post(chunkedLine) + "0\r\nX\r\n\r\n", 400, ""},
	{"5a-12_trailer_fold", post(chunkedLine) + "0\r\nX: 1\r\n 2\r\n\r\n", 400, ""},
	{"5a-12_trailer_control", post(chunkedLine) + "0\r\nX: \x01\r\n\r\n", 400, ""},
	{"5a-12_trailer_is_a_request", post(chunkedLine) + "0\r\nGET /smuggled HTTP/1.1\r\n\r\n", 400, ""},
	{"5a-13_LF_line_ends", "GET / HTTP/1.1\nHost: h\n\n", 400, ""},
	{"5a-13_LF_after_field", "GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n", 400, ""},
	{"5a-13_LF_ends_head", "GET / HTTP/1.1\r\nHost: h\r\n\n", 400, ""},
	{"5a-14_bare_CR", get("A: b\rc"), 400, ""},
	{"5a-14_bare_CR_at_end", get("A: b\r"), 400, ""},
	{"5a-14_CR_ends_head", "GET / HTTP/1.1\r\nHost: h\r\n\rX", 400, ""},
	{"5a-14_NUL", get("A: b\x00c"), 400, ""},
	{"5a-15_fold", get("A: b", "  c"), 400, ""},
	{"5a-15_fold_tab", get("A: b", "\tc"), 400, ""},
	{"5a-16_fold_before_first", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400, ""},
	{"5a-16_empty_name", get(": b"), 400, ""},
	{"5a-16_space_in_name", get("A B: c"), 400, ""},
	{"5a-16_space_after_name", get("A : c"), 400, ""},
	{"5a-16_control_in_name", get("A\x01: c"), 400, ""},
	{"5a-16_high_byte_in_name", get("A\x80: c"), 400, ""},
	{"5a-16_slash_in_name", get("A/B: c"), 400, ""},
	{"5a-17_no_colon", get("Abc"), 400, ""},
	{"5a-18_control_in_value", get("A: b\x07"), 400, ""},
	{"5a-18_DEL_in_value", get("A: 0123456789\x7f0123456789"), 400, ""},
	{"5a-18_tab_and_high_bytes_kept", get("A:\t b\tc\xff ", "B:"), 0, "same"},
	{"5a-19_no_host", message("GET / HTTP/1.1", "A: b"), 400, ""},
	{"5a-19_no_fields", message("GET / HTTP/1.1"), 400, ""},
	{"5a-19_two_hosts", get("Host: h"), 400, ""},
	{"5a-19_two_hosts_HTTP10", message("GET / HTTP/1.0", "Host: h", "host: i"), 400, ""},
	{"5a-19_HTTP10_without_host", message("GET / HTTP/1.0", "A: b"), 0, message("GET / HTTP/1.0", "A: b", "Connection: keep-alive")},
	{"5a-19_HTTP10_without_fields", message("GET / HTTP/1.0"), 0, message("GET / HTTP/1.0", "Connection: keep-alive")},
	{"5a-19_host_list", message("GET / HTTP/1.1", "Host: a, b"), 400, ""},
	{"5a-19_host_path", message("GET / HTTP/1.1", "Host: a/b"), 400, ""},
	{"5a-19_host_user", message("GET / HTTP/1.1", "Host: u@a"), 400, ""},
	{"5a-19_host_port", message("GET / HTTP/1.1", "Host: a:8x"), 400, ""},
	{"5a-19_host_two_ports", message("GET / HTTP/1.1", "Host: a:8:9"), 400, ""},
	{"5a-19_host_bracket", message("GET / HTTP/1.1", "Host: [::1"), 400, ""},
	{"5a-19_host_forms_kept", message("GET / HTTP/1.1", "HOST:[2001:db8::1]:8080 "), 0, "same"},
	{"5a-19_host_empty_kept", message("GET / HTTP/1.1", "Host:"), 0, "same"},
	{"5a-20_absolute_host_wins", message("GET http://other:81/p?q HTTP/1.1", "A: 1", "hOst:  h", "B: 2"), 0, message("GET /p?q HTTP/1.1", "A: 1", "hOst: other:81", "B: 2")},
	{"5a-20_absolute_same_host", message("GET HTTP://h/ HTTP/1.1", "Host:  h"), 0, message("GET / HTTP/1.1", "Host:  h")},
	{"5a-20_absolute_no_path", message("GET https://other HTTP/1.1", "Host: h"), 0, message("GET / HTTP/1.1", "Host: other")},
	{"5a-20_absolute_query_only", message("GET http://other?q HTTP/1.1", "Host: h"), 0, message("GET /?q HTTP/1.1", "Host: other")},
	{"5a-20_absolute_options", message("OPTIONS http://other HTTP/1.1", "Host: h"), 0, message("OPTIONS * HTTP/1.1", "Host: other")},
	{"5a-20_absolute_HTTP10_no_host", message("GET http://other/p HTTP/1.0", "A: b"), 0, message("GET /p HTTP/1.0", "Host: other", "A: b", "Connection: keep-alive")},
	{"5a-20_absolute_no_host", message("GET http://other/p HTTP/1.1", "A: b"), 400, ""},
	{"5a-20_absolute_empty_host", message("GET http:///p HTTP/1.1", "Host: h"), 400, ""},
	{"5a-20_absolute_only_port", message("GET http://:80/p HTTP/1.1", "Host: h"), 400, ""},
	{"5a-20_absolute_user", message("GET http://u:p@other/p HTTP/1.1", "Host: h"), 400, ""},
	{"5a-20_absolute_backslash", message(`GET http://other\@h/p HTTP/1.1`, "Host: h"), 400, ""},
	{"5a-20_absolute_other_scheme", message("GET ftp://other/p HTTP/1.1", "Host: h"), 400, ""},
	{"5a-21_star", message("GET * HTTP/1.1", "Host: h"), 400, ""},
	{"5a-21_star_options", message("OPTIONS * HTTP/1.1", "Host: h"), 0, "same"},
	{"5a-21_star_path", message("OPTIONS *x HTTP/1.1", "Host: h"), 400, ""},
	{"5a-21_fragment", message("GET /a#b HTTP/1.1", "Host: h"), 400, ""},
	{"5a-21_high_bytes", message("GET /\x80\xff?\xc3\xa9 HTTP/1.1", "Host: h"), 0, "same"},
	{"5a-21_other_bytes", message(`GET //a/../%2e%2E%00;x=1?q="<>\^`+"`"+`{|}' HTTP/1.1`, "Host: h"), 0, "same"},
	{"5a-21_no_slash", message("GET admin HTTP/1.1", "Host: h"), 400, ""},
	{"5a-21_authority", message("GET h:80 HTTP/1.1", "Host: h"), 400, ""},
	{"5a-22_HTTP09", "GET /\r\n", 400, ""},
	{"5a-22_HTTP09_LF", "GET /\n", 400, ""},
	{"5a-23_tab", "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", 400, ""},
	{"5a-23_tab_before_version", "GET /\tHTTP/1.1\r\nHost: h\r\n\r\n", 400, ""},
	{"5a-23_double_space", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400, ""},
	{"5a-23_double_space_before_version", "GET /  HTTP/1.1\r\nHost: h\r\n\r\n", 400, ""},
	{"5a-23_space_first", " GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400, ""},
	{"5a-23_space_last", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400, ""},
	{"5a-24_GET_with_length", get("Content-Length: 3") + "abc", 0, "same"},
	{"5a-24_GET_with_chunks", get(chunkedLine) + "3\r\nabc\r\n0\r\n\r\n", 0, "same"},
	{"5a-25_connection_names_cookie", get("Connection: close, Cookie", "Cookie: app=1; N=C2", "cookie: b=2"), 0, get("Cookie: app=1; N=C2", "cookie: b=2")},
	{"5a-25_connection_names_framing", post("Connection: Host, content-length,Transfer-Encoding", "Content-Length: 1") + "a", 0, post("Content-Length: 1") + "a"},

	{"more_two_words", "GET HTTP/1.1\r\nHost: h\r\n\r\n", 400, ""},
	{"more_one_word", "GET\r\n\r\n", 400, ""},
	{"more_four_words", "GET / x HTTP/1.1\r\nHost: h\r\n\r\n", 400, ""},
	{"more_version_2.0", message("GET / HTTP/2.0", "Host: h"), 505, ""},
	{"more_version_1.2", message("GET / HTTP/1.2", "Host: h"), 505, ""},
	{"more_version_0.9", message("GET / HTTP/0.9", "Host: h"), 505, ""},
	{"more_version_1.10", message("GET / HTTP/1.10", "Host: h"), 505, ""},
	{"more_version_preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, ""},
	{"more_version_case", message("GET / http/1.1", "Host: h"), 400, ""},
	{"more_version_other", message("GET / HTTPS/1.1", "Host: h"), 400, ""},
	{"more_version_long", message("GET / HTTP/1.1111111111111111111", "Host: h"), 400, ""},
	{"more_version_CR", "GET / HTTP/1.1\rX\r\nHost: h\r\n\r\n", 400, ""},
	{"more_one_empty_line", "\r\n" + get(), 0, get()},
	{"more_two_empty_lines", "\r\n\r\n" + get(), 400, ""},
	{"more_empty_line_LF", "\n" + get(), 400, ""},
	{"more_empty_line_CR", "\r" + get(), 400, ""},
	{"more_control_in_target", message("GET /a\x01b HTTP/1.1", "Host: h"), 400, ""},
	{"more_DEL_in_target", message("GET /a\x7fb HTTP/1.1", "Host: h"), 400, ""},
	{"more_NUL_in_target", message("GET /a\x00b HTTP/1.1", "Host: h"), 400, ""},
	{"more_bad_method", message("GE(T / HTTP/1.1", "Host: h"), 400, ""},
	{"more_any_method", message("prop!find / HTTP/1.1", "Host: h"), 0, "same"},
	{"more_TLS_hello", "\x16\x03\x01\x02\x00\x01\x00", 400, ""},
	{"more_CONNECT", message("CONNECT h:443 HTTP/1.1", "Host: h:443"), 405, ""},

	{"connection_hop_by_hop", get("Connection: keep-alive, X-Gone", "Keep-Alive: 5", "A: 1", "x-gone: 2", "Proxy-Connection: close", "TE: trailers", "B: 3"), 0, get("A: 1", "B: 3")},
	{"connection_two_lines", get("X-Gone: 1", "Connection: x-gone", "Y-Gone: 2", "connection: ,y-GONE,"), 0, get()},
	{"upgrade_kept", get("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: k"), 0, "same"},
	{"upgrade_plain_connection", get("Connection: keep-alive, Upgrade", "Upgrade: websocket"), 0, get("Connection: upgrade", "Upgrade: websocket")},
	{"upgrade_not_asked", get("Upgrade: websocket"), 0, get()},
	{"upgrade_without_field", get("Connection: upgrade"), 0, get()},
	{"upgrade_HTTP10", message("GET / HTTP/1.0", "Connection: upgrade", "Upgrade: websocket"), 0, message("GET / HTTP/1.0", "Connection: keep-alive")},
	{"upgrade_h2c_not_forwarded", get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), 0, get()},
	{"bytes_kept", message("POST /P%61th?Q=1&q=2 HTTP/1.1", "x-B: 1", "X-b:2", "hOsT: h", "Cookie: a=\"1\"; b = 2;;c=\xff", "COOKIE: d=4", "Content-Length: 2", "Expect: 100-continue") + "xy", 0, "same"},
}

func TestRequestHead(t *testing.T) {
	for _, test := range requestTests {
		t.Run(test.name, func(t *testing.T) {
			want := test.out
			if want == "same" {
				want = test.in
			}
			if test.status == 0 {
				want += smuggled
			}
			everySplit(test.in+smuggled, func(how string, segments ...[]byte) {
				r := requests(segments...)
				if r.status() != test.status {
					t.Fatalf("%s: status %d (%v), want %d", how, r.status(), r.err, test.status)
				}
				got := string(r.out)
				if test.status == 0 || how == "whole" {
					equal(t, how, got, want)
				}
				if test.status != 0 && (r.done > 0 || strings.Contains(got, "smuggled")) {
					t.Errorf("%s: a message after the fault was forwarded: %q", how, got)
				}
			})
		})
	}
}

// A head that comes a byte at a time is not read again from its beginning: bytes that were looked at may change.
func TestRequestHead_5a_26_slow_bytes_are_read_once(t *testing.T) {
	in := []byte(message("GET /"+strings.Repeat("p", 100)+" HTTP/1.1", "Host: h", "A: "+strings.Repeat("x", 1000), "B: c"))
	value := strings.Index(string(in), "xxx")
	target := strings.Index(string(in), "ppp")
	var q Request
	for i := 1; i < len(in); i++ {
		if n, err := q.Parse(in[:i]); n != 0 || err != nil {
			t.Fatalf("after %d bytes: %d, %v", i, n, err)
		}
		if i > value && i <= value+1000 || i > target && i <= target+100 {
			in[i-1] = 0
		}
	}
	if n, err := q.Parse(in); n != len(in) || err != nil {
		t.Errorf("complete: %d, %v", n, err)
	}
}

func TestRequestLimits(t *testing.T) {
	head := func(target string, lines ...string) string {
		return message("GET "+target+" HTTP/1.1", append([]string{"Host: h"}, lines...)...)
	}
	fields := func(n int) []string {
		lines := make([]string, n)
		for i := range lines {
			lines[i] = "A: b"
		}
		return lines
	}
	// filler makes all header lines n bytes, "Host: h" included.
	filler := func(n int) string { return "A: " + strings.Repeat("b", n-len("Host: h\r\n")-len("A: \r\n")) }
	largest := "\r\n" + message(strings.Repeat("M", MaxMethod)+" /"+strings.Repeat("a", MaxTarget-1)+" HTTP/1.1", "Host: h", filler(MaxFieldBytes))
	tests := []struct {
		name   string
		in     string
		status int
	}{
		{"J-20_target_8192", head("/" + strings.Repeat("a", 8191)), 0},
		{"J-20_target_8193", head("/" + strings.Repeat("a", 8192)), 414},
		{"J-20_target_with_query_8192", head("/?" + strings.Repeat("%", 8190)), 0},
		{"J-20_target_with_query_8193", head("/?" + strings.Repeat("%", 8191)), 414},
		{"J-20_target_without_end", "GET /" + strings.Repeat("a", 8192), 414},
		{"target_at_limit_then_fault", "GET /" + strings.Repeat("a", 8191) + "\r\n", 400},
		{"fields_100", head("/", fields(99)...), 0},
		{"fields_101", head("/", fields(100)...), 431},
		{"bytes_65536", head("/", filler(65536)), 0},
		{"bytes_65537", head("/", filler(65537)), 431},
		{"bytes_without_end", "GET / HTTP/1.1\r\nHost: h\r\nA: " + strings.Repeat("b", 65536), 431},
		{"bytes_in_a_name", "GET / HTTP/1.1\r\n" + strings.Repeat("b", 65538), 431},
		{"cookie_7_kB", head("/", "Cookie: a="+strings.Repeat("b", 7000), "Cookie: N=C2"), 0},
		{"everything_at_its_limit", largest, 0},
		{"method_64", message(strings.Repeat("M", 64)+" / HTTP/1.1", "Host: h"), 0},
		{"method_65", message(strings.Repeat("M", 65)+" / HTTP/1.1", "Host: h"), 400},
		{"options_100", head("/", "Connection: "+strings.Repeat("a,", 99)+"a"), 0},
		{"options_101", head("/", "Connection: "+strings.Repeat("a,", 100)+"a"), 400},
		{"chunk_extension_4096", post(chunkedLine) + "1;" + strings.Repeat("e", 4096) + "\r\na\r\n0\r\n\r\n", 0},
		{"chunk_extension_4097", post(chunkedLine) + "1;" + strings.Repeat("e", 4097) + "\r\na\r\n0\r\n\r\n", 400},
		{"chunk_extension_of_each_chunk", post(chunkedLine) + strings.Repeat("1;"+strings.Repeat("e", 4096)+"\r\na\r\n", 3) + "0\r\n\r\n", 0},
		{"trailers_8192", post(chunkedLine) + "0\r\nA: " + strings.Repeat("b", 8192-7) + "\r\n\r\n", 0},
		{"trailers_8193", post(chunkedLine) + "0\r\nA: " + strings.Repeat("b", 8193-7) + "\r\n\r\n", 431},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			everySplit(test.in, func(how string, segments ...[]byte) {
				r := requests(segments...)
				if r.status() != test.status || test.status == 0 && r.done != 1 {
					t.Fatalf("%s: status %d, %d complete (%v), want %d", how, r.status(), r.done, r.err, test.status)
				}
			})
		})
	}
	if len(largest) != MaxHead {
		t.Errorf("the largest head has %d bytes, MaxHead is %d", len(largest), MaxHead)
	}
}

// facts is what a caller can learn of a request.
type facts struct {
	method, target, path, host string
	minor                      int
	framing                    Framing
	length                     int64
	asked                      Asked
	expects100, idempotent     bool
}

func factsOf(q *Request) facts {
	framing, length := q.Framing()
	return facts{
		string(q.Method()), string(q.Target()), string(q.Path()), string(q.Host()),
		q.Minor(), framing, length, q.Asked(), q.Expects100(), q.Idempotent(),
	}
}

func TestRequestFacts(t *testing.T) {
	tests := []struct {
		name, in string
		want     facts
	}{
		{"plain", get(), facts{"GET", "/", "/", "h", 1, FramingNone, 0, Asked{KeepAlive: true}, false, true}},
		{"close", get("Connection: foo , Close"), facts{"GET", "/", "/", "h", 1, FramingNone, 0, Asked{}, false, true}},
		{"HTTP10", message("GET / HTTP/1.0"), facts{"GET", "/", "/", "", 0, FramingNone, 0, Asked{HTTP10: true}, false, true}},
		{"HTTP10_keep_alive", message("GET / HTTP/1.0", "Connection: Keep-Alive"), facts{"GET", "/", "/", "", 0, FramingNone, 0, Asked{HTTP10: true, KeepAlive: true}, false, true}},
		{"HTTP10_both", message("GET / HTTP/1.0", "Connection: keep-alive", "Connection: close"), facts{"GET", "/", "/", "", 0, FramingNone, 0, Asked{HTTP10: true}, false, true}},
		{"head", message("HEAD /x HTTP/1.1", "Host: h:1"), facts{"HEAD", "/x", "/x", "h:1", 1, FramingNone, 0, Asked{Head: true, KeepAlive: true}, false, true}},
		{"length", post("Content-Length: 007", "expect: 100-Continue"), facts{"POST", "/", "/", "h", 1, FramingLength, 7, Asked{KeepAlive: true}, true, false}},
		{"length_zero", post("Content-Length: 0"), facts{"POST", "/", "/", "h", 1, FramingNone, 0, Asked{KeepAlive: true}, false, false}},
		{"length_largest", post("Content-Length: 9223372036854775807"), facts{"POST", "/", "/", "h", 1, FramingLength, 9223372036854775807, Asked{KeepAlive: true}, false, false}},
		{"chunked", post(chunkedLine), facts{"POST", "/", "/", "h", 1, FramingChunked, 0, Asked{KeepAlive: true}, false, false}},
		{"expect_HTTP10", message("PUT / HTTP/1.0", "Expect: 100-continue"), facts{"PUT", "/", "/", "", 0, FramingNone, 0, Asked{HTTP10: true}, false, true}},
		{"upgrade", get("Upgrade: a", "Connection: upgrade"), facts{"GET", "/", "/", "h", 1, FramingNone, 0, Asked{KeepAlive: true, Upgrade: true}, false, true}},
		{"absolute", message("GET http://o:1?q HTTP/1.1", "Host: h"), facts{"GET", "http://o:1?q", "/?q", "o:1", 1, FramingNone, 0, Asked{KeepAlive: true}, false, true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var q Request
			if n, err := q.Parse([]byte(test.in)); n != len(test.in) || err != nil || q.Size() != n {
				t.Fatalf("Parse: %d, %v, Size %d", n, err, q.Size())
			}
			if got := factsOf(&q); got != test.want {
				t.Errorf("\n got %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestRequestFields(t *testing.T) {
	in := get("COOKIE: a=1 ", "X:", "Cookie:b=2", "A:\t1")
	var q Request
	if n, err := q.Parse([]byte(in)); n != len(in) || err != nil {
		t.Fatal(n, err)
	}
	var got []string
	for i := range q.Len() {
		got = append(got, string(q.Name(i))+"|"+string(q.Value(i))+"|"+string(q.Line(i)))
	}
	equal(t, "fields", strings.Join(got, " "), "Host|h|Host: h\r\n COOKIE|a=1|COOKIE: a=1 \r\n X||X:\r\n Cookie|b=2|Cookie:b=2\r\n A|1|A:\t1\r\n")

	var cookies []int
	for i := q.Next(KindCookie, 0); i >= 0; i = q.Next(KindCookie, i+1) {
		cookies = append(cookies, i)
	}
	if len(cookies) != 2 || cookies[0] != 1 || cookies[1] != 3 || q.Kind(3) != KindCookie {
		t.Errorf("cookie lines %v", cookies)
	}
	if q.Next(KindUpgrade, 0) != -1 || q.Lookup("x", 0) != 2 || q.Lookup("x", 3) != -1 || q.Lookup("cookie", 2) != 3 {
		t.Error("a line is not where it is")
	}
}

func TestRequestEdits(t *testing.T) {
	in := message("GET /a;jroute=R1?x HTTP/1.1", "Host: h", "Proxy-jroute: forged", "Cookie: a=1", "X-Forwarded-For: 1.1.1.1", "B: 2")
	var q Request
	if _, err := q.Parse([]byte(in)); err != nil {
		t.Fatal(err)
	}
	q.Drop(q.Lookup("proxy-jroute", 0))
	q.SetValue(q.Lookup("x-forwarded-for", 0), []byte("lost"))
	q.SetValue(q.Lookup("x-forwarded-for", 0), []byte("1.1.1.1, 127.0.0.1"))
	q.SetPath([]byte("/a?x"))
	out := q.AppendHead([]byte("before|"), Close)
	out = AppendField(out, "Proxy-jroute", "R2")
	out = AppendField(out, "X-N", []byte("3"))
	equal(t, "edited", string(AppendEnd(out)), "before|"+message("GET /a?x HTTP/1.1", "Host: h", "Cookie: a=1",
		"X-Forwarded-For: 1.1.1.1, 127.0.0.1", "B: 2", "Connection: close", "Proxy-jroute: R2", "X-N: 3"))
	equal(t, "input", string(q.buf), in)

	q.Reset()
	if len(q.edits) != 0 || q.edits[:1][0].value != nil || q.buf != nil || q.path != nil {
		t.Error("Reset holds on to the last message")
	}
	if _, err := q.Parse([]byte(get("B: 2"))); err != nil {
		t.Fatal(err)
	}
	equal(t, "next message", string(AppendEnd(q.AppendHead(nil, KeepAlive))), get("B: 2"))
}

func TestRequestConnectionToMember(t *testing.T) {
	for _, test := range []struct {
		name, in string
		after    After
		want     string
	}{
		{"HTTP11_keep", get("Connection: close"), KeepAlive, get()},
		{"HTTP11_close", get("Connection: keep-alive"), Close, get("Connection: close")},
		{"HTTP10_keep", message("GET / HTTP/1.0"), KeepAlive, message("GET / HTTP/1.0", "Connection: keep-alive")},
		{"HTTP10_close", message("GET / HTTP/1.0"), Close, message("GET / HTTP/1.0", "Connection: close")},
		{"upgrade", get("Connection: upgrade", "Upgrade: x"), Close, get("Connection: upgrade", "Upgrade: x")},
	} {
		t.Run(test.name, func(t *testing.T) {
			var q Request
			if _, err := q.Parse([]byte(test.in)); err != nil {
				t.Fatal(err)
			}
			equal(t, "forwarded", string(AppendEnd(q.AppendHead(nil, test.after))), test.want)
		})
	}
}

// The log and the client are told what is wrong.
func TestRequestReasons(t *testing.T) {
	for in, want := range map[string]string{
		"\r\n\r\n":                          "more than one empty line before the request",
		"GET / HTTP/1.1\r\n A: b\r\n":       "folded header line",
		"GET / HTTP/1.1\r\nA: b\n":          "line ended by LF alone",
		"GET / HTTP/1.1\r\n\n":              "line ended by LF alone",
		"GET / HTTP/1.1\r\nA: b\rc":         "CR without LF",
		"GET / HTTP/1.1\r\nA: \x07":         "control byte in a header",
		"GET / HTTP/1.1\r\nA\r\n":           "header line without a colon",
		"GET / HTTP/1.1\r\nA B: c\r\n":      "bad header name",
		"GET /\r\n":                         "bad request line",
		"GET / HTTP/3.0\r\n":                "HTTP version is not 1.0 or 1.1",
		get("Content-Length: 1", "Host: h"): "more than one Host",
	} {
		if r := requests([]byte(in)); r.err == nil || r.err.Error() != want {
			t.Errorf("%q: %v, want %s", in, r.err, want)
		}
	}
}

// An error stays, and so does a complete head, whatever is parsed after it.
func TestRequestParseAgain(t *testing.T) {
	var q Request
	_, err := q.Parse([]byte("GET  "))
	if _, again := q.Parse([]byte(get())); err == nil || !errors.Is(again, err) {
		t.Errorf("%v, then %v", err, again)
	}
	q.Reset()
	in := []byte(get() + smuggled)
	for range 2 {
		if n, err := q.Parse(in); n != len(get()) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
}
