package pool

import "time"

// cookieNote is what a decision remembers of cookies.
type cookieNote struct {
	insert bool    // the pool inserts a cookie
	named  *Member // the member that a valid cookie of the request named
}

// cookies is how a pool writes its cookie.
type cookies struct {
	drop  []byte // the name that servers must not use
	lines func(dst []byte, m *Member, now time.Time) []byte
}

func (c *cookies) appendLine(dst []byte, m *Member, now time.Time) []byte {
	if c == nil || m == nil {
		return dst
	}
	return c.lines(dst, m, now)
}
