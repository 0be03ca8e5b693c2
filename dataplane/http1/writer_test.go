package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"
)

func TestAppendError(t *testing.T) {
	for _, test := range []struct {
		name   string
		to     Asked
		status int
		reason string
		after  After
		want   string
	}{
		{"fault", Asked{}, 400, "bad Host", Close, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 26\r\nConnection: close\r\n\r\n400 Bad Request: bad Host\n"},
		{"kept", plain, 503, "no member is available", KeepAlive, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 48\r\n\r\n503 Service Unavailable: no member is available\n"},
		{"kept_HTTP10", client, 504, "slow", KeepAlive, "HTTP/1.1 504 Gateway Timeout\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 26\r\nConnection: keep-alive\r\n\r\n504 Gateway Timeout: slow\n"},
		{"head", head, 502, "x", KeepAlive, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "response", string(AppendError(nil, test.to, test.status, test.reason, test.after)), test.want)
		})
	}
}

// Another reader understands our responses, and our own does.
func TestAppendErrorIsHTTP(t *testing.T) {
	for status := 400; status < 600; status++ {
		out := AppendError(nil, Asked{}, status, "because", Close)
		response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
		if err != nil {
			t.Fatal(status, err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != status || int64(len(body)) != response.ContentLength || !response.Close {
			t.Errorf("%d: status %d, %q, %v", status, response.StatusCode, body, err)
		}
		if r := responses([]Asked{{}}, out); r.err != nil || r.done != 1 {
			t.Errorf("%d: %v", status, r.err)
		}
	}
}

func TestAppendRedirect(t *testing.T) {
	got := AppendRedirect(nil, plain, "http://h/a b\r\nSet-Cookie: x=\x7f\xe9?q#f", KeepAlive)
	equal(t, "response", string(got), "HTTP/1.1 302 Found\r\nLocation: http://h/a%20b%0D%0ASet-Cookie:%20x=%7F\xe9?q#f\r\nContent-Length: 0\r\n\r\n")
	got = AppendRedirect(nil, plain, "/", Close)
	equal(t, "response", string(got), "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
