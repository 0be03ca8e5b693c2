// Package edges holds what is known of HTTP/1 messages at the edge of being valid, each with the answer that is right for us:
// the rows of the table of edge cases, the rulings below it, and the limits. It is for tests: those of the reader, those of
// the whole forwarder, and those that ask a peer program for a second opinion.
package edges

import "strings"

// Request is a row about a request.
type Request struct {
	Name   string
	In     string // what the client sends; complete unless it is refused
	Status int    // of the answer, after which the connection is closed; 0: the request is accepted
	Late   bool   // the fault is in the body: of what came before it something may have been forwarded, but no end
	Out    string // what the member gets of an accepted one, where its connection stays open
}

// Response is a row about a response.
type Response struct {
	Name    string
	Request string // what it answers; it has no body
	In      string // what the member sends, and then closes if the end of the body is that
	Bad     bool   // it is not accepted: the client is answered 502 unless it has got a part already
	Out     string // what the client gets of an accepted one; of another, what comes before the fault and is good in itself
}

// Chunked is a header line.
const Chunked = "Transfer-Encoding: chunked"

// Smuggled is a request that follows another. No member may see it behind one that is refused.
var Smuggled = Message("GET /smuggled HTTP/1.1", "Host: h")

// Message is a head: a start line and header lines.
func Message(start string, lines ...string) string {
	return strings.Join(append([]string{start}, lines...), "\r\n") + "\r\n\r\n"
}

// Get is a GET request with the given header lines after Host.
func Get(lines ...string) string {
	return Message("GET / HTTP/1.1", append([]string{"Host: h"}, lines...)...)
}

// Post is a POST request, whose body may follow.
func Post(lines ...string) string {
	return Message("POST / HTTP/1.1", append([]string{"Host: h"}, lines...)...)
}

// OK is the head of a response.
func OK(lines ...string) string { return Message("HTTP/1.1 200 OK", lines...) }

func refused(name string, status int, in string) Request {
	return Request{Name: name, In: in, Status: status}
}

func late(name string, status int, in string) Request {
	return Request{Name: name, In: in, Status: status, Late: true}
}

func passed(name, in, out string) Request { return Request{Name: name, In: in, Out: out} }

func same(name, in string) Request { return passed(name, in, in) }

func bad(name, request, in string) Response {
	return Response{Name: name, Request: request, In: in, Bad: true}
}

func cut(name, request, in, out string) Response {
	return Response{Name: name, Request: request, In: in, Bad: true, Out: out}
}

func answered(name, request, in, out string) Response {
	return Response{Name: name, Request: request, In: in, Out: out}
}

func unchanged(name, request, in string) Response { return answered(name, request, in, in) }

// With returns the row with one more header line, the first one (pain 96).
func (r Request) With(line string) Request {
	r.In = insert(r.In, line, "")
	if r.Status == 0 {
		first := ""
		if _, fields, _ := strings.Cut(r.In, "\n"); !strings.Contains(strings.ToLower("\n"+fields), "\nhost:") {
			first = "Host:" // of an absolute target; it goes before all lines of the client
		}
		r.Out = insert(r.Out, line, first)
	}
	return r
}

// insert puts a header line after the start line, and after a line that begins with skip if that follows it. The line ends
// as the start line does.
func insert(message, line, skip string) string {
	lead := ""
	for strings.HasPrefix(message, "\r\n") {
		lead, message = lead+"\r\n", message[2:]
	}
	start, rest, found := strings.Cut(message, "\n")
	if !found {
		return lead + message
	}
	if skip != "" && strings.HasPrefix(rest, skip) {
		host, after, _ := strings.Cut(rest, "\n")
		start, rest = start+"\n"+host, after
	}
	if strings.HasSuffix(start, "\r") {
		line += "\r"
	}
	return lead + start + "\n" + line + "\n" + rest
}

// Closing reports whether the client wants its connection closed after the row's request, and returns what a member gets
// whose connection ends with that of the client.
func (r Request) Closing() (closing bool, out string) {
	head, body, _ := strings.Cut(r.Out, "\r\n\r\n")
	received, _, _ := strings.Cut(strings.ToLower(r.In), "\r\n\r\n")
	keep := strings.Contains(received, "keep-alive")
	switch {
	case strings.Contains(received, "\nconnection: close"):
		return true, head + "\r\nConnection: close\r\n\r\n" + body
	case strings.Contains(received, " http/1.0") && !keep:
		return true, strings.TrimSuffix(head, "\r\nConnection: keep-alive") + "\r\nConnection: close\r\n\r\n" + body
	}
	return false, r.Out
}
