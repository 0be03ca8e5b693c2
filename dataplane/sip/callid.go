// Package sip finds what persistence needs in the messages of the Session Initiation Protocol (RFC 3261): a datagram carries one
// whole message, a request or a response.
package sip

import "bytes"

var version = []byte("SIP/2.0")

// CallID returns the Call-ID of a message, as part of it: the value of the first field Call-ID or, in its short form, i (RFC 3261,
// 7.3.3 and 20.8). It is nil where the message is none of SIP or names no call, as those that only keep a path open.
func CallID(message []byte) []byte {
	rest := bytes.TrimLeft(message, "\r\n") // RFC 3261, 7.5
	line, rest := cutLine(rest)
	if !bytes.HasPrefix(line, version) && !bytes.HasSuffix(line, version) {
		return nil
	}
	for {
		if line, rest = cutLine(rest); len(line) == 0 {
			return nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if name = bytes.TrimRight(name, " \t"); !bytes.EqualFold(name, []byte("Call-ID")) && !bytes.EqualFold(name, []byte("i")) {
			continue
		}
		for value = trim(value); len(value) == 0 && folded(rest); value = trim(line) {
			line, rest = cutLine(rest)
		}
		if len(value) == 0 {
			return nil
		}
		return value
	}
}

// cutLine takes the first line, without its end. Where there is none both are empty.
func cutLine(b []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(b, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest
}

// folded reports whether a field goes on in the next line (RFC 3261, 7.3.1).
func folded(rest []byte) bool { return len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') }

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }
