package cookie

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestParseKey(t *testing.T) {
	digits := strings.Repeat("0aF1", 16)
	for text, good := range map[string]bool{
		digits: true, digits + "\r\n": true, " " + digits + "\n\n": true,
		"": false, digits[1:]: false, digits + "0": false, "x" + digits[1:]: false, digits[:32] + "\n" + digits[32:]: false,
	} {
		k, err := ParseKey([]byte(text))
		if good && (err != nil || k[0] != 0x0a || k[31] != 0xf1) || !good && !errors.Is(err, ErrKey) {
			t.Errorf("%q: %x, %v", text, k, err)
		}
	}
}

func TestSealed(t *testing.T) {
	ring := NewRing(Key{1}, Key{2})
	for _, addr := range []string{"10.1.1.100:8080", "[::1]:8080", "0.0.0.0:0", "[2001:112::30]:80"} {
		want := Sealed{Addr: netip.MustParseAddrPort(addr), Epoch: 1 << 60, Made: time.Unix(1e9, 0)}
		value := ring.AppendSealed(nil, Named("N"), want)
		got, ok := ring.Open(value, "N")
		if !ok || got != want || len(value) != SealedSize {
			t.Errorf("%s: %q is %+v, %t", addr, value, got, ok)
		}
		want.Old = true
		if got, ok := NewRing(Key{3}, Key{1}).Open(value, "N"); !ok || got != want {
			t.Errorf("%s: by the second key it is %+v, %t", addr, got, ok)
		}
		if _, ok := ring.Open(value, "M"); ok {
			t.Error("opened under another name")
		}
		if _, ok := NewRing(Key{2}).Open(value, "N"); ok {
			t.Error("opened by another key")
		}
	}
}

func FuzzOpen(f *testing.F) {
	ring := NewRing(Key{1})
	made := Sealed{Addr: netip.MustParseAddrPort("10.1.1.1:80"), Made: time.Unix(1e9, 0)}
	good := ring.AppendSealed(nil, Named("N"), made)
	for _, seed := range []string{string(good), "!", "", `"!"`, "!" + strings.Repeat("A", 84), "!" + strings.Repeat("\n", 84)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if s, ok := ring.Open(value, "N"); ok && s != made {
			t.Fatalf("%q says %+v, which was never sealed", value, s)
		}
	})
}

// FuzzAppendWithout: what is left out is not found any more, and all other cookies are.
func FuzzAppendWithout(f *testing.F) {
	for _, seed := range []string{"N=1", "a=1; N=2; b=3", ";N;;", "N=1;N=2", " N = 1 ; a", "a=1;"} {
		f.Add([]byte(seed))
	}
	name := Named("N")
	f.Fuzz(func(t *testing.T, line []byte) {
		out, left := AppendWithout(nil, line, &name)
		n := 0
		for range Values(name, line) {
			n++
		}
		if n != left || left == 0 && !bytes.Equal(out, line) {
			t.Fatalf("%q became %q, %d of %d left out", line, out, left, n)
		}
		for range Values(name, out) {
			t.Fatalf("%q still has the cookie", out)
		}
		var want, got [][]byte
		for _, pair := range bytes.Split(line, []byte{';'}) {
			key, _, _ := bytes.Cut(pair, []byte{'='})
			if pair = trim(pair); len(pair) > 0 && !name.Is(trim(key)) {
				want = append(want, pair)
			}
		}
		for _, pair := range bytes.Split(out, []byte{';'}) {
			if pair = trim(pair); len(pair) > 0 {
				got = append(got, pair)
			}
		}
		if !bytes.Equal(bytes.Join(want, []byte{';'}), bytes.Join(got, []byte{';'})) {
			t.Fatalf("%q became %q", line, out)
		}
	})
}
