package http1

import "strconv"

// AppendField appends one header line. The value must not hold CR, LF or NUL.
func AppendField[V ~string | ~[]byte](dst []byte, name string, value V) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// AppendEnd appends the empty line that ends a head.
func AppendEnd(dst []byte) []byte { return append(dst, "\r\n"...) }

// appendFields appends what is forwarded of the bytes from position from to the end of the header lines.
func (h *Head) appendFields(dst []byte, from int) []byte {
	end := h.size - 2
	if !h.changed {
		return append(dst, h.buf[from:end]...)
	}
	for i := range h.count {
		f := &h.fields[i]
		if f.change == 0 {
			continue
		}
		dst = append(dst, h.buf[from:f.start]...)
		from = int(f.start) + int(f.end) + 2
		switch f.change {
		case edited:
			dst = append(dst, h.buf[f.start:int(f.start)+int(f.value)]...)
			dst = append(dst, h.edited(i)...)
			dst = append(dst, h.buf[int(f.start)+int(f.valueEnd):from]...)
		case replaced:
			dst = append(dst, h.Name(i)...)
			dst = append(dst, ": "...)
			dst = append(dst, h.edited(i)...)
			dst = append(dst, "\r\n"...)
		}
	}
	return append(dst, h.buf[from:end]...)
}

// appendAfter appends the Connection field, where the version alone does not say what happens to the connection.
func appendAfter(dst []byte, after After, http10 bool) []byte {
	switch {
	case after == Close:
		return append(dst, "Connection: close\r\n"...)
	case http10:
		return append(dst, "Connection: keep-alive\r\n"...)
	default:
		return dst
	}
}

// AppendError appends a whole response that says what went wrong in a line of text, without a body if the request was HEAD.
// After an *Error give the zero Asked and Close.
func AppendError(dst []byte, to Asked, status int, reason string, after After) []byte {
	text := StatusText(status)
	dst = appendStatus(dst, status, text)
	dst = append(dst, "Content-Type: text/plain; charset=utf-8\r\n"...)
	if status == 405 {
		dst = append(dst, "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"...)
	}
	// The body is "503 Service Unavailable: no member accepts\n".
	dst = appendLength(dst, len("503 ")+len(text)+len(": ")+len(reason)+len("\n"))
	dst = AppendEnd(appendAfter(dst, after, to.HTTP10))
	if to.Head {
		return dst
	}
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, text...)
	dst = append(dst, ": "...)
	dst = append(dst, reason...)
	return append(dst, '\n')
}

// AppendRedirect appends a whole 302 response. Bytes that cannot stand in a location are written as %XX.
func AppendRedirect(dst []byte, to Asked, location string, after After) []byte {
	dst = appendStatus(dst, 302, StatusText(302))
	dst = append(dst, "Location: "...)
	for i := range len(location) {
		if c := location[i]; c > ' ' && c != 0x7f {
			dst = append(dst, c)
		} else {
			const digits = "0123456789ABCDEF"
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	dst = append(dst, "\r\n"...)
	dst = appendLength(dst, 0)
	return AppendEnd(appendAfter(dst, after, to.HTTP10))
}

func appendStatus(dst []byte, status int, text string) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, text...)
	return append(dst, "\r\n"...)
}

func appendLength(dst []byte, n int) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, "\r\n"...)
}

// StatusText returns the usual text of a status that this proxy answers itself, else "Error".
func StatusText(status int) string {
	switch status {
	case 302:
		return "Found"
	case 400:
		return "Bad Request"
	case 403:
		return "Forbidden"
	case 404:
		return "Not Found"
	case 405:
		return "Method Not Allowed"
	case 408:
		return "Request Timeout"
	case 413:
		return "Content Too Large"
	case 414:
		return "URI Too Long"
	case 429:
		return "Too Many Requests"
	case 431:
		return "Request Header Fields Too Large"
	case 500:
		return "Internal Server Error"
	case 501:
		return "Not Implemented"
	case 502:
		return "Bad Gateway"
	case 503:
		return "Service Unavailable"
	case 504:
		return "Gateway Timeout"
	case 505:
		return "HTTP Version Not Supported"
	default:
		return "Error"
	}
}
