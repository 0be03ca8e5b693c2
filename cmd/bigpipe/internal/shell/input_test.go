package shell

import (
	"os"
	"strings"
	"testing"
)

// TestInput writes keys and looks at what readline gets of them.
func TestInput(t *testing.T) {
	long := strings.Repeat("member 10.1.1.1:80 ", 9)
	for keys, want := range map[string]struct{ out, pasted string }{
		"pool web\r":             {"pool web\r", ""},
		long + "\r":              {string(pasteKey) + "\r", long},
		long + "é\r" + long:      {string(pasteKey) + "\r" + string(pasteKey), long + "é|" + long},
		long + "\t":              {string(pasteKey) + "\t", long},
		long + "?":               {string(pasteKey) + "?", long},
		"a\tb" + long + "\x1b[A": {string(pasteKey) + "\x1b[A", "a b" + long},
		long + "\xc3":            {string(pasteKey) + "\xc3", long},
		"\x00":                   {"\x04", ""},
		long + "\xff" + long:     {long + "\xff" + long, ""},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		in, err := newInput(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(keys); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for buffer := make([]byte, 7); out.Len() < len(want.out); {
			n, err := in.Read(buffer)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(buffer[:n])
		}
		var pasted []string
		for text, more := in.paste(); more; text, more = in.paste() {
			pasted = append(pasted, text)
		}
		if got := strings.Join(pasted, "|"); out.String() != want.out || got != want.pasted {
			t.Errorf("%q gives %q with %q", keys, out.String(), got)
		}
		in.release()
		r.Close()
		w.Close()
	}
}
