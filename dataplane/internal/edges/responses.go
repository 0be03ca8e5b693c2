package edges

import "strings"

// longestStatusLine is the limit of a status line without its end, in bytes.
const longestStatusLine = 8192

// The requests that are answered.
var (
	get      = Get()
	getClose = Get("Connection: close")
	head     = Message("HEAD / HTTP/1.1", "Host: h")
	client10 = Message("GET / HTTP/1.0", "Connection: keep-alive")
	socket   = Get("Connection: upgrade", "Upgrade: chat")

	websocket = Get("Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: k")
)

const cookie = "Set-Cookie: BIGipServerweb=1677787402.36895.0000; path=/"

// Responses are the rows about responses: of the table by their numbers, of the pains by theirs, and the rulings.
var Responses = []Response{
	unchanged("bytes_kept", get, Message("HTTP/1.1 200 A \t\xff", "sERVER:x", cookie, "Set-Cookie: a=1", "set-cookie:b=2 ", "Cookie: c=3", "Content-Length: 3")+"abc"),
	bad("5a-1_CL_and_TE", get, OK("Content-Length: 5", Chunked)+"0\r\n\r\n"),
	bad("5a-2_CL_twice_same", get, OK("Content-Length: 1", "Content-Length: 1")+"a"),
	bad("5a-3_CL_twice_different", get, OK("Content-Length: 1", "Content-Length: 2")+"ab"),
	bad("5a-4_CL_list", get, OK("Content-Length: 1, 1")+"a"),
	bad("5a-5_CL_plus", get, OK("Content-Length: +1")+"a"),
	bad("5a-5_CL_empty", get, OK("Content-Length:")+"a"),
	answered("5a-6_CL_01", get, OK("Content-Length: 01")+"a", OK("Content-Length: 1")+"a"),
	bad("5a-7_TE_twice", get, OK(Chunked, Chunked)+"0\r\n\r\n"),
	bad("5a-7_TE_chunked_identity", get, OK("Transfer-Encoding: chunked, identity")+"0\r\n\r\n"),
	bad("5a-7_TE_gzip_chunked", get, OK("Transfer-Encoding: gzip, chunked")+"0\r\n\r\n"),
	bad("5a-7_TE_xchunked", get, OK("Transfer-Encoding: xchunked")+"0\r\n\r\n"),
	bad("5a-7_TE_empty", get, OK("Transfer-Encoding:")+"0\r\n\r\n"),
	bad("5a-8_TE_in_HTTP10", get, Message("HTTP/1.0 200 OK", Chunked)+"0\r\n\r\n"),
	cut("5a-9_chunk_size_0x1", get, OK(Chunked)+"0x1\r\na\r\n0\r\n\r\n", OK(Chunked)),
	cut("5a-10_chunk_size_LF", get, OK(Chunked)+"1\na\r\n0\r\n\r\n", OK(Chunked)),
	answered("5a-11_extension_dropped", get, OK(Chunked)+"1;a=b\r\na\r\n0\r\n\r\n", OK(Chunked)+"1\r\na\r\n0\r\n\r\n"),
	answered("5a-12_trailers", get, OK(Chunked)+"1\r\na\r\n0\r\nSet-Cookie: a=b\r\nServer-Timing: x\r\nContent-Length: 9\r\n\r\n", OK(Chunked)+"1\r\na\r\n0\r\nServer-Timing: x\r\n\r\n"),
	bad("5a-13_LF_line_ends", get, "HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
	bad("5a-14_bare_CR", get, OK("A: b\rc")),
	bad("5a-14_NUL", get, OK("A: b\x00c")),
	bad("5a-15_fold", get, OK("A: b", " c", "Content-Length: 0")),
	bad("5a-16_space_in_name", get, OK("A B: c")),
	bad("5a-16_empty_name", get, OK(": c")),
	bad("5a-17_no_colon", get, OK("Abc")),
	bad("5a-18_control", get, OK("A: \x07")),
	answered("5a-25_connection_names_set_cookie", get, OK("Connection: Set-Cookie, X-Gone", cookie, "X-Gone: 1", "Content-Length: 0"), OK(cookie, "Content-Length: 0")),

	bad("status_line_other_protocol", get, "SSH-2.0-x\r\n"),
	bad("status_line_garbage", get, "<html>"),
	bad("status_line_empty_line_first", get, "\r\n"+OK("Content-Length: 0")),
	bad("status_line_version", get, Message("HTTP/1.2 200 OK", "Content-Length: 0")),
	bad("status_line_version_2", get, Message("HTTP/2.0 200 OK", "Content-Length: 0")),
	bad("status_line_two_digits", get, Message("HTTP/1.1 20 OK", "Content-Length: 0")),
	bad("status_line_four_digits", get, Message("HTTP/1.1 2000 OK", "Content-Length: 0")),
	bad("status_line_below_100", get, Message("HTTP/1.1 099 OK", "Content-Length: 0")),
	bad("status_line_plus", get, Message("HTTP/1.1 +20 OK", "Content-Length: 0")),
	bad("status_line_two_blanks", get, Message("HTTP/1.1  200 OK", "Content-Length: 0")),
	bad("status_line_tab", get, Message("HTTP/1.1\t200 OK", "Content-Length: 0")),
	bad("status_line_text_at_once", get, Message("HTTP/1.1 200OK", "Content-Length: 0")),
	bad("status_line_short", get, "HTTP/1.1\r\n\r\n"),
	bad("status_line_control_in_text", get, Message("HTTP/1.1 200 O\x01K", "Content-Length: 0")),
	unchanged("status_line_without_text", get, Message("HTTP/1.1 200 ", "Content-Length: 0")),
	unchanged("status_line_without_blank", get, Message("HTTP/1.1 200", "Content-Length: 0")),
	unchanged("status_line_999", get, Message("HTTP/1.1 999 Odd", "Content-Length: 0")),
	unchanged("status_line_longest", get, Message("HTTP/1.1 200 "+strings.Repeat("x", longestStatusLine-13), "Content-Length: 0")),
	bad("status_line_too_long", get, Message("HTTP/1.1 200 "+strings.Repeat("x", longestStatusLine-12), "Content-Length: 0")),
	unchanged("fields_100", get, OK(append(fields(99), "Content-Length: 0")...)),
	unchanged("bytes_65536", get, OK("Content-Length: 0", "A: "+strings.Repeat("b", 65536-len("Content-Length: 0\r\nA: \r\n")))),
	bad("fields_101", get, OK(strings.Split(strings.Repeat("A: b\n", 100)+"A: b", "\n")...)),
	bad("field_bytes", get, OK("A: "+strings.Repeat("b", 65537))),

	answered("hop_by_hop", get, OK("Connection: keep-alive", "Keep-Alive: timeout=5", "A: b", "Proxy-Connection: x", "Content-Length: 0"), OK("A: b", "Content-Length: 0")),
	answered("upgrade_offer_not_forwarded", get, OK("Upgrade: h2,h2c", "Connection: Upgrade", "Content-Length: 0"), OK("Content-Length: 0")),
	answered("upgrade_required", get, Message("HTTP/1.1 426 Upgrade Required", "Upgrade: TLS/1.0", "Connection: close, Upgrade", "Content-Length: 0"), Message("HTTP/1.1 426 Upgrade Required", "Upgrade: TLS/1.0", "Connection: upgrade", "Content-Length: 0")),
	answered("upgrade_required_without_connection", get, Message("HTTP/1.1 426 Upgrade Required", "Upgrade: TLS/1.0", "Content-Length: 0"), Message("HTTP/1.1 426 Upgrade Required", "Upgrade: TLS/1.0", "Content-Length: 0", "Connection: upgrade")),
	answered("upgrade_required_but_none_named", get, Message("HTTP/1.1 426 Upgrade Required", "Connection: keep-alive", "Content-Length: 0"), Message("HTTP/1.1 426 Upgrade Required", "Content-Length: 0")),
	answered("until_close", get, OK("A: b")+"until the end", OK("A: b", "Connection: close")+"until the end"),
	answered("until_close_HTTP10", get, Message("HTTP/1.0 200 OK")+"until the end", Message("HTTP/1.0 200 OK", "Connection: close")+"until the end"),
	answered("HTTP10_length", get, Message("HTTP/1.0 200 OK", "Content-Length: 1")+"a", Message("HTTP/1.0 200 OK", "Content-Length: 1", "Connection: keep-alive")+"a"),
	answered("client_closes", getClose, OK("Content-Length: 1")+"a", OK("Content-Length: 1", "Connection: close")+"a"),
	answered("to_HTTP10_length", client10, OK("Content-Length: 1")+"a", OK("Content-Length: 1", "Connection: keep-alive")+"a"),
	answered("to_HTTP10_chunks", client10, OK("A: b", Chunked)+"1;x\r\na\r\n2\r\nbc\r\n0\r\nX: y\r\n\r\n", OK("A: b", "Connection: close")+"abc"),
	cut("to_HTTP10_bad_chunks", client10, OK(Chunked)+"1\r\nab\r\n0\r\n\r\n", OK("Connection: close")+"a"),

	answered("99_head_with_body", head, OK("Content-Length: 3")+"abc", OK("Content-Length: 3")),
	answered("99_head_with_chunks", head, OK(Chunked)+"0\r\n\r\n", OK(Chunked)),
	unchanged("99_head_without_framing", head, OK("A: b")),
	answered("99_204_with_length", get, Message("HTTP/1.1 204 No Content", "Content-Length: 3", "A: b")+"abc", Message("HTTP/1.1 204 No Content", "A: b")),
	answered("99_204_with_chunks", get, Message("HTTP/1.1 204 No Content", Chunked)+"0\r\n\r\n", Message("HTTP/1.1 204 No Content")),
	answered("99_304_with_length", get, Message("HTTP/1.1 304 Not Modified", "Content-Length: 3")+"abc", Message("HTTP/1.1 304 Not Modified", "Content-Length: 3")),
	bad("99_304_CL_and_TE", get, Message("HTTP/1.1 304 Not Modified", "Content-Length: 3", Chunked)),

	unchanged("1xx_before_the_final", get, Message("HTTP/1.1 100 Continue")+Message("HTTP/1.1 103 Early Hints", "Link: </x>")+OK("Content-Length: 1")+"a"),
	answered("1xx_with_length", get, Message("HTTP/1.1 103 Early Hints", "Content-Length: 3", "Connection: close")+OK("Content-Length: 0"), Message("HTTP/1.1 103 Early Hints")+OK("Content-Length: 0")),
	cut("1xx_with_body", get, Message("HTTP/1.1 103 Early Hints", "Content-Length: 3")+"abc"+OK("Content-Length: 0"), Message("HTTP/1.1 103 Early Hints")),
	unchanged("1xx_eight", get, strings.Repeat(Message("HTTP/1.1 102 Processing"), 8)+OK("Content-Length: 0")),
	cut("1xx_flood", get, strings.Repeat(Message("HTTP/1.1 102 Processing"), 9)+OK("Content-Length: 0"), strings.Repeat(Message("HTTP/1.1 102 Processing"), 8)),
	answered("101", socket, Message("HTTP/1.1 101 Switching Protocols", "Upgrade: chat", "Connection: Upgrade", "Content-Length: 0")+"\x81\x00anything", Message("HTTP/1.1 101 Switching Protocols", "Upgrade: chat", "Connection: Upgrade")+"\x81\x00anything"),
	answered("101_without_connection", socket, Message("HTTP/1.1 101 Switching Protocols", "Upgrade: x"), Message("HTTP/1.1 101 Switching Protocols", "Upgrade: x", "Connection: upgrade")),
	unchanged("101_after_100", socket, Message("HTTP/1.1 100 Continue")+Message("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: x")+"t"),
	bad("101_unasked", get, Message("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade")),
	bad("101_HTTP10", socket, Message("HTTP/1.0 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade")),
	unchanged("101_asked_but_200", socket, OK("Content-Length: 1")+"a"),
	bad("101_websocket_without_accept", websocket, Message("HTTP/1.1 101 Switching Protocols", "Upgrade: WebSocket", "Connection: Upgrade")),
	bad("101_websocket_empty_accept", websocket, Message("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept:")),
	unchanged("101_websocket", websocket, Message("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", "sec-websocket-ACCEPT: x")+"\x81\x00"),

	bad("coding_chunked_chunked", get, OK("Transfer-Encoding: chunked, chunked")+end),
	bad("coding_chunked_gzip_chunked", get, OK("Transfer-Encoding: chunked, gzip, chunked")+end),
	bad("coding_chunked_gzip", get, OK("Transfer-Encoding: chunked, gzip")+end),
	bad("coding_gzip", get, OK("Transfer-Encoding: gzip")+end),
	bad("coding_identity", get, OK("Transfer-Encoding: identity")+end),
	bad("coding_space_before_colon", get, OK("Transfer-Encoding : chunked")+end),
	bad("coding_NUL", get, OK("Transfer-Encoding: chunked\x00")+end),
	bad("coding_folded", get, OK("Transfer-Encoding:", " chunked")+end),
	bad("length_zeros_list", get, OK("Content-Length: 000, 00")),
	bad("length_2_64", get, OK("Content-Length: 18446744073709551616")),
	bad("length_minus", get, OK("Content-Length: -1")),
	bad("length_HEAD_twice", head, OK("Content-Length: 1", "Content-Length: 2")),
	bad("length_and_coding_HEAD", head, OK("Content-Length: 1", Chunked)),
	bad("length_and_coding_204", get, Message("HTTP/1.1 204 No Content", "Content-Length: 1", Chunked)),
	cut("chunk_size_missing", get, OK(Chunked)+"\r\na\r\n"+end, OK(Chunked)),
	cut("chunk_size_17_digits", get, OK(Chunked)+"00000000000000001\r\na\r\n"+end, OK(Chunked)),
	cut("chunk_data_too_long", get, OK(Chunked)+"1\r\nab\r\n"+end, OK(Chunked)),
	cut("chunk_end_LF", get, OK(Chunked)+"1\r\na\r\n0\r\n\n", OK(Chunked)),
	cut("chunk_trailer_no_colon", get, OK(Chunked)+"1\r\na\r\n0\r\nA\r\n\r\n", OK(Chunked)),
	unchanged("request_style_cookie", get, OK("Cookie: BIGipServerweb_pool=184549503.16671.0000", "Content-Length: 0")),
	unchanged("many_cookies", get, OK("Set-Cookie: a=1", "Set-Cookie2: a=1", "SET-COOKIE: a=2", "Set-Cookie2: a=1", "Content-Length: 1", "Set-Cookie:c=3")+"a"),
	unchanged("chunk_data_looks_like_a_response", get, OK(Chunked)+"13\r\nHTTP/1.1 200 OK\r\n\r\n\r\n"+end),
}
