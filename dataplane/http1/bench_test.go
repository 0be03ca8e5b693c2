package http1

import (
	"slices"
	"testing"

	"bigpipe/dataplane/internal/edges"
)

var browserRequest = message("GET /shop/cart?item=4711&size=xl HTTP/1.1",
	"Host: www.shop.example.test",
	"Connection: keep-alive",
	`sec-ch-ua: "Chromium";v="140", "Not=A?Brand";v="24", "Google Chrome";v="140"`,
	"sec-ch-ua-mobile: ?0",
	`sec-ch-ua-platform: "Linux"`,
	"Upgrade-Insecure-Requests: 1",
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
	"Sec-Fetch-Site: same-origin",
	"Sec-Fetch-Mode: navigate",
	"Sec-Fetch-User: ?1",
	"Sec-Fetch-Dest: document",
	"Referer: http://www.shop.example.test/shop/list",
	"Accept-Encoding: gzip, deflate, br, zstd",
	"Accept-Language: en-GB,en;q=0.9,de;q=0.8",
	"Cookie: JSESSIONID=0123456789ABCDEF0123456789ABCDEF; BIGipServerweb=1677787402.36895.0000; theme=dark; _ga=GA1.1.1234567890.1234567890",
)

var serverResponse = message("HTTP/1.1 200 OK",
	"Server: nginx/1.22.1", "Date: Mon, 30 Nov 2026 18:00:00 GMT", "Content-Type: text/html", "Content-Length: 612",
	"Last-Modified: Mon, 30 Nov 2026 17:00:00 GMT", "Connection: keep-alive", `ETag: "64f7e6c2-264"`, "Accept-Ranges: bytes")

// exchange is one request and its response, as a forwarder keeps them for a connection.
type exchange struct {
	q        Request
	r        Response
	up, down Body
	out      []byte
}

func (x *exchange) request(in []byte) error {
	x.q.Reset()
	n, err := x.q.Parse(in)
	if err != nil {
		return err
	}
	x.q.StartBody(&x.up)
	if err := x.up.Check(in[n:]); err != nil {
		return err
	}
	x.out = AppendField(x.q.AppendHead(x.out[:0], KeepAlive), "X-Forwarded-For", "127.0.0.1")
	x.out = AppendEnd(x.out)
	_, _, err = x.up.Next(in[n:])
	return err
}

func (x *exchange) response(in []byte) error {
	x.r.Reset(x.q.Asked())
	n, err := x.r.Parse(in)
	if err != nil {
		return err
	}
	x.r.StartBody(&x.down)
	x.out = AppendField(x.r.AppendHead(x.out[:0], x.r.After()), "Set-Cookie", "BIGipServerweb=1677787402.36895.0000; path=/")
	x.out = AppendEnd(x.out)
	_, _, err = x.down.Next(in[n:])
	return err
}

func TestNoAllocations(t *testing.T) {
	x := &exchange{}
	for name, in := range map[string]string{
		"small":    get(),
		"browser":  browserRequest,
		"largest":  largestRequest(),
		"edited":   message("POST http://other/p HTTP/1.0", "Host: h", "Content-Length: 01", "Connection: x, keep-alive") + "a",
		"upgrade":  get("Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: k"),
		"chunked":  post("Transfer-Encoding: Chunked") + "1;x\r\na\r\n0\r\n\r\n",
		"trailers": post(chunkedLine) + "0\r\nA: b\r\nCookie: c\r\n\r\n",
	} {
		in := []byte(in)
		if n := testing.AllocsPerRun(100, func() {
			if err := x.request(in); err != nil {
				t.Fatal(name, err)
			}
		}); n != 0 && name != "trailers" {
			t.Errorf("request %s: %v allocations", name, n)
		} else if n > 1 {
			t.Errorf("request %s: %v allocations", name, n)
		}
	}
	for name, in := range map[string]string{
		"plain":   serverResponse,
		"small":   ok("Content-Length: 1") + "a",
		"chunked": ok(chunkedLine, "Connection: close") + "1;x\r\na\r\n0\r\n\r\n",
		"none":    message("HTTP/1.1 204 No Content", "Content-Length: 0"),
	} {
		in := []byte(in)
		if n := testing.AllocsPerRun(100, func() {
			if err := x.response(in); err != nil {
				t.Fatal(name, err)
			}
		}); n != 0 {
			t.Errorf("response %s: %v allocations", name, n)
		}
	}
}

// largestRequest is a head that is as large as one may be.
func largestRequest() string {
	i := slices.IndexFunc(edges.Limits, func(row edges.Request) bool { return row.Name == "everything_at_its_limit" })
	return edges.Limits[i].In
}

func benchmark(b *testing.B, in string, do func(*exchange, []byte) error) {
	x, data := &exchange{}, []byte(in)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := do(x, data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	b.Run("small", func(b *testing.B) { benchmark(b, get(), (*exchange).request) })
	b.Run("browser", func(b *testing.B) { benchmark(b, browserRequest, (*exchange).request) })
}

func BenchmarkParseRequest(b *testing.B) {
	parse := func(x *exchange, in []byte) error {
		x.q.Reset()
		_, err := x.q.Parse(in)
		return err
	}
	b.Run("small", func(b *testing.B) { benchmark(b, get(), parse) })
	b.Run("browser", func(b *testing.B) { benchmark(b, browserRequest, parse) })
	b.Run("largest", func(b *testing.B) { benchmark(b, largestRequest(), parse) })
}

func BenchmarkParseResponse(b *testing.B) {
	benchmark(b, serverResponse, func(x *exchange, in []byte) error {
		x.r.Reset(Asked{KeepAlive: true})
		_, err := x.r.Parse(in)
		return err
	})
}

func BenchmarkResponse(b *testing.B) {
	benchmark(b, serverResponse, (*exchange).response)
}

func BenchmarkChunks(b *testing.B) {
	for _, size := range []string{"10", "4000"} {
		var in []byte
		n := int64(0)
		for _, c := range size {
			n = n<<4 | int64(hexValue(byte(c)))
		}
		for len(in) < 64<<10 {
			in = append(in, size+"\r\n"...)
			in = append(in, make([]byte, n)...)
			in = append(in, "\r\n"...)
		}
		b.Run(size, func(b *testing.B) {
			body := chunks()
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				if n, _, err := body.Next(in); n != len(in) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
