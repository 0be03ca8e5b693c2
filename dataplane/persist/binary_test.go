package persist

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var compareRecord = cmp.Options{cmp.AllowUnexported(Key{}, space{}), cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})}

// sampleRecords have every kind of key and every extreme.
func sampleRecords(t testing.TB) []Record {
	mask, err := NewMask(24, 64)
	if err != nil {
		t.Fatal(err)
	}
	virtual := netip.MustParseAddrPort("10.0.0.1:80")
	own := ScopeOf(Globals{}, virtual, 7)
	node, node6 := netip.MustParseAddrPort("10.1.1.1:80"), netip.MustParseAddrPort("[2001:db8::1]:443")
	return []Record{
		{
			Key: AddrKey(Simple, own, mask, netip.MustParseAddr("10.2.3.4")), Node: node, Pool: 7, Refresher: 8, Timeout: time.Hour,
			Age: 3 * time.Second, Idle: time.Second, Remaining: time.Minute, Open: 3, Accepted: true,
		},
		{Key: AddrKey(Sticky, Scope{}, mask, netip.MustParseAddr("2001:db8::5")), Node: node6, Remaining: Forever, Timer: Fixed},
		{Key: AddrKey(Cookie, ScopeOf(Globals{PersistOnAnyPortSameVIP: true}, virtual, 7), Mask{}, netip.IPv6Unspecified()), Node: node},
		{Key: IDKey(SSL, own, []byte{0}), Node: node},
		{Key: IDKey(Ticket, own, bytes.Repeat([]byte("x"), 32)), Node: node},
		{Key: IDKey(SIP, own, bytes.Repeat([]byte("y"), 300)), Node: node},
	}
}

func TestRecordBinary(t *testing.T) {
	for _, rec := range sampleRecords(t) {
		b, err := rec.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got Record
		if err := got.UnmarshalBinary(b); err != nil {
			t.Fatalf("%s: %v", rec.Key, err)
		}
		if diff := cmp.Diff(rec, got, compareRecord); diff != "" {
			t.Errorf("%s: %s", rec.Key, diff)
		}
		for n := range b {
			if got.UnmarshalBinary(b[:n]) == nil {
				t.Errorf("%s: %d of %d bytes are taken", rec.Key, n, len(b))
			}
		}
		if got.UnmarshalBinary(append(b, 0)) == nil {
			t.Errorf("%s: a byte more is taken", rec.Key)
		}
	}
}

// Records that are read keep the time that is left to them, and their place in another table.
func TestRecordBinaryImport(t *testing.T) {
	now := int64(0)
	clock := func() int64 { return now }
	from, to := New(Options{Clock: clock}), New(Options{Clock: clock})
	key := IDKey(SSL, Scope{}, []byte("id"))
	b := from.Bind(key, Policy{Pool: 1, Timeout: time.Minute}, func() (netip.AddrPort, bool) { return netip.MustParseAddrPort("10.1.1.1:80"), true })
	from.Accepted(&b.Handle)
	from.Release(&b.Handle)
	now = int64(40 * time.Second)
	for rec := range from.List(Filter{}) {
		text, _ := rec.AppendBinary(nil)
		var got Record
		if err := got.UnmarshalBinary(text); err != nil || !to.Import(got) {
			t.Fatal("not imported", err)
		}
	}
	rec, ok := to.Lookup(key)
	if !ok || rec.Remaining != 20*time.Second || rec.Node.String() != "10.1.1.1:80" {
		t.Errorf("%+v, %v", rec, ok)
	}
}

func FuzzRecordBinary(f *testing.F) {
	for _, rec := range sampleRecords(f) {
		b, _ := rec.AppendBinary(nil)
		f.Add(b)
	}
	table := New(Options{Limit: 100})
	f.Fuzz(func(t *testing.T, b []byte) {
		var rec Record
		if rec.UnmarshalBinary(b) != nil {
			return
		}
		text, _ := rec.AppendBinary(nil)
		var again Record
		if err := again.UnmarshalBinary(text); err != nil || !cmp.Equal(rec, again, compareRecord) {
			t.Errorf("% x is read as %+v, and that as %+v, %v", b, rec, again, err)
		}
		table.Import(rec)
		for r := range table.List(Filter{}) {
			_ = r.Key.String() + r.Key.Scope().Virtual()
		}
	})
}
