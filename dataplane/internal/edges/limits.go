package edges

import "strings"

// Limits are requests at a limit and one beyond it.
var Limits = []Request{
	same("J-20_target_8192", target("/"+strings.Repeat("a", 8191))),
	refused("J-20_target_8193", 414, target("/"+strings.Repeat("a", 8192))),
	same("J-20_target_with_query_8192", target("/?"+strings.Repeat("%", 8190))),
	refused("J-20_target_with_query_8193", 414, target("/?"+strings.Repeat("%", 8191))),
	refused("J-20_target_without_end", 414, "GET /"+strings.Repeat("a", 8192)),
	refused("target_at_limit_then_fault", 400, "GET /"+strings.Repeat("a", 8191)+"\r\n"),
	same("fields_100", Get(fields(99)...)),
	refused("fields_101", 431, Get(fields(100)...)),
	same("bytes_65536", Get(filler(65536))),
	refused("bytes_65537", 431, Get(filler(65537))),
	refused("bytes_without_end", 431, "GET / HTTP/1.1\r\nHost: h\r\nA: "+strings.Repeat("b", 65536)),
	refused("bytes_in_a_name", 431, "GET / HTTP/1.1\r\n"+strings.Repeat("b", 65538)),
	same("cookie_7_kB", Get("Cookie: a="+strings.Repeat("b", 7000), "Cookie: N=C2")),
	passed("everything_at_its_limit", "\r\n"+largest, largest),
	same("method_64", Message(strings.Repeat("M", 64)+" / HTTP/1.1", "Host: h")),
	refused("method_65", 400, Message(strings.Repeat("M", 65)+" / HTTP/1.1", "Host: h")),
	passed("options_100", Get("Connection: "+strings.Repeat("a,", 99)+"a"), Get()),
	refused("options_101", 400, Get("Connection: "+strings.Repeat("a,", 100)+"a")),
	passed("chunk_extension_4096", Post(Chunked)+extended(4096)+end, Post(Chunked)+"1\r\na\r\n"+end),
	late("chunk_extension_4097", 400, Post(Chunked)+extended(4097)+end),
	passed("chunk_extension_of_each_chunk", Post(Chunked)+strings.Repeat(extended(4096), 3)+end, Post(Chunked)+strings.Repeat("1\r\na\r\n", 3)+end),
	same("trailers_8192", Post(Chunked)+"0\r\nA: "+strings.Repeat("b", 8192-7)+"\r\n\r\n"),
	late("trailers_8193", 431, Post(Chunked)+"0\r\nA: "+strings.Repeat("b", 8193-7)+"\r\n\r\n"),
}

const end = "0\r\n\r\n"

// largest is a head with everything at its limit, but for an empty line before it.
var largest = Message(strings.Repeat("M", 64)+" /"+strings.Repeat("a", 8191)+" HTTP/1.1", "Host: h", filler(65536))

func target(target string) string { return Message("GET "+target+" HTTP/1.1", "Host: h") }

func fields(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = "A: b"
	}
	return lines
}

// filler is a line that makes all header lines n bytes, "Host: h" included.
func filler(n int) string { return "A: " + strings.Repeat("b", n-len("Host: h\r\n")-len("A: \r\n")) }

// extended is a chunk with an extension of n bytes.
func extended(n int) string { return "1;" + strings.Repeat("e", n) + "\r\na\r\n" }
