package cookie

import (
	"bytes"
	"iter"
	"strings"
)

// Name is a cookie's name, made once and compared with every cookie of a request. Names differ in case.
type Name struct {
	text   string
	spaced string // a second spelling that is read, never written; "" for none
}

// Named is the cookie with exactly this name.
func Named(name string) Name { return Name{text: name} }

const poolPrefix = "BIGipServer"

// PoolName is the name of a pool's cookie, BIGipServer<pool>; a pool outside /Common is written
// BIGipServer~<partition>~<pool> (rule C-5). Bytes of a pool's name that would end a cookie's name become ~ as well.
func PoolName(pool string) Name { return Name{text: poolPrefix + poolPart(pool)} }

// PassiveName is [PoolName] that is also read in the spelling "BIGipServer <pool>" of seed 002 (rule C-5).
func PassiveName(pool string) Name {
	part := poolPart(pool)
	return Name{text: poolPrefix + part, spaced: poolPrefix + " " + part}
}

func poolPart(pool string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || strings.ContainsRune(`/;=,"`, r) {
			return '~'
		}
		return r
	}, strings.TrimPrefix(pool, "/Common/"))
}

// String returns the name as it is written.
func (n Name) String() string { return n.text }

// Is reports whether b is this name, in any of its spellings.
func (n Name) Is(b []byte) bool {
	return string(b) == n.text || n.spaced != "" && string(b) == n.spaced
}

// Names finds cookies by one of many names. Keys and values are the names.
type Names map[string]string

// Add adds a name as it is written.
func (n Names) Add(name Name) { n[name.text] = name.text }

// Each yields name and value of the cookies in a Cookie line whose name is one of these.
func (n Names) Each(line []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for more := true; more; {
			var cookie []byte
			cookie, line, more = bytes.Cut(line, []byte{';'})
			key, value, _ := bytes.Cut(cookie, []byte{'='})
			if name, ok := n[string(trim(key))]; ok && !yield(name, trim(value)) {
				return
			}
		}
	}
}
