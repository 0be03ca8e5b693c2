package main

import (
	"bytes"
	"io"
	"slices"
	"unicode"
	"unicode/utf8"
)

// visible puts the replacement character in place of what would act on a terminal instead of being seen there: control characters
// but tabs and line ends, and those that turn the direction of writing. Comments and texts of a configuration may hold any.
type visible struct {
	to io.Writer
	// part is a character of which the rest is still to come.
	part []byte
}

// Write implements io.Writer.
func (v *visible) Write(b []byte) (int, error) {
	text := append(v.part, b...)
	whole := len(text)
	for i := max(0, whole-utf8.UTFMax+1); i < whole; i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			whole = i
		}
	}
	v.part = slices.Clone(text[whole:])
	if _, err := v.to.Write(bytes.Map(seen, text[:whole])); err != nil {
		return 0, err
	}
	return len(b), nil
}

// flush writes what is left of a character that never became whole.
func (v *visible) flush() error {
	if len(v.part) == 0 {
		return nil
	}
	_, err := v.to.Write(bytes.Map(seen, v.part))
	v.part = nil
	return err
}

func seen(r rune) rune {
	if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
		return utf8.RuneError
	}
	return r
}

// onScreen runs write with a writer that shows on the terminal, if w is one, only what can be seen.
func onScreen(w io.Writer, write func(io.Writer) error) error {
	_, paged := w.(*pager)
	if !paged && terminalOf(w) == nil {
		return write(w)
	}
	v := &visible{to: w}
	if err := write(v); err != nil {
		return err
	}
	return v.flush()
}
