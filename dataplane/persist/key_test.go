package persist

import (
	"bytes"
	"hash/maphash"
	"net/netip"
	"strings"
	"testing"
)

func TestScope(t *testing.T) {
	other := netip.MustParseAddrPort("127.0.0.10:8443")
	for _, tc := range []struct {
		name    string
		globals Globals
		vip     netip.AddrPort
		pool    PoolID
		same    bool // as v1 with webPool
		virtual string
	}{
		{"B-1_own_virtual_server_and_pool", Globals{}, v1, webPool, true, "127.0.0.10:8080"},
		{"B-1_other_port", Globals{}, other, webPool, false, "127.0.0.10:8443"},
		{"B-1_other_pool", Globals{}, v1, sslPool, false, "127.0.0.10:8080"},
		{"B-2_other_port_and_pool", Globals{PersistOnAnyPortSameVIP: true}, other, sslPool, true, "127.0.0.10:*"},
		{"B-2_other_address", Globals{PersistOnAnyPortSameVIP: true}, v2, webPool, false, "127.0.0.20:*"},
		{"B-3_other_address_and_pool", Globals{PersistOnAnyVIP: true}, v2, sslPool, true, ""},
		{"B-3_wins_over_B-2", Globals{PersistOnAnyVIP: true, PersistOnAnyPortSameVIP: true}, v2, sslPool, true, ""},
		{"mapped_address", Globals{}, netip.MustParseAddrPort("[::ffff:127.0.0.10]:8080"), webPool, true, "127.0.0.10:8080"},
		{"IPv6", Globals{PersistOnAnyPortSameVIP: true}, netip.MustParseAddrPort("[fd00::1]:80"), webPool, false, "[fd00::1]:*"},
		{"IPv6_narrow", Globals{}, netip.MustParseAddrPort("[fd00::1]:80"), webPool, false, "[fd00::1]:80"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scope := ScopeOf(tc.globals, tc.vip, tc.pool)
			if got := scope == ScopeOf(tc.globals, v1, webPool); got != tc.same {
				t.Errorf("shared with %v: %v, want %v", v1, got, tc.same)
			}
			if got := scope.Virtual(); got != tc.virtual {
				t.Errorf("printed %q, want %q", got, tc.virtual)
			}
			if got := scope.Shared(); got != (tc.globals != Globals{}) {
				t.Errorf("shared by pools: %v", got)
			}
		})
	}
}

func TestPoolIDOf(t *testing.T) {
	if got := PoolIDOf("http_pool"); got != 0x8267d72edbaed1aa {
		t.Errorf("the ID of http_pool is %#x: records that were saved before no longer belong to it", uint64(got))
	}
	if PoolIDOf("a") == PoolIDOf("b") {
		t.Error("two names, one ID")
	}
}

func TestMask(t *testing.T) {
	for _, tc := range []struct {
		bits4, bits6 int
		addr, masked string
	}{
		{32, 128, "10.1.2.3", "10.1.2.3"},
		{24, 128, "10.1.2.3", "10.1.2.0"},
		{24, 128, "::ffff:10.1.2.3", "10.1.2.0"},
		{23, 128, "10.1.3.3", "10.1.2.0"},
		{1, 128, "200.1.3.3", "128.0.0.0"},
		{0, 128, "200.1.3.3", "0.0.0.0"},
		{24, 128, "fd00::1:2", "fd00::1:2"},
		{24, 64, "fd00::1:2", "fd00::"},
		{32, 0, "fd00::1:2", "::"},
		{32, 127, "fe80::3%eth0", "fe80::2"},
	} {
		mask, err := NewMask(tc.bits4, tc.bits6)
		if err != nil {
			t.Errorf("mask /%d /%d: %v", tc.bits4, tc.bits6, err)
		} else if got := mask.Apply(netip.MustParseAddr(tc.addr)).String(); got != tc.masked {
			t.Errorf("mask /%d /%d on %s: %s, want %s", tc.bits4, tc.bits6, tc.addr, got, tc.masked)
		}
	}
	for _, bits := range [][2]int{{33, 128}, {-1, 128}, {32, 129}, {32, -1}} {
		if _, err := NewMask(bits[0], bits[1]); err == nil {
			t.Errorf("the mask %v was taken", bits)
		}
	}
}

func TestKey(t *testing.T) {
	scope := ScopeOf(Globals{}, v1, webPool)
	class, err := NewMask(24, 64)
	if err != nil {
		t.Fatal(err)
	}
	simple := func(m Mask, addr string) Key { return AddrKey(Simple, scope, m, netip.MustParseAddr(addr)) }
	long := bytes.Repeat([]byte{7}, 33)
	longer := append(bytes.Repeat([]byte{7}, 32), 8)
	hashed := IDKey(SSL, scope, long)
	for _, tc := range []struct {
		name string
		a, b Key
		same bool
	}{
		{"B-11_C_class", simple(class, "10.1.2.3"), simple(class, "10.1.2.77"), true},
		{"B-11_other_C_class", simple(class, "10.1.2.3"), simple(class, "10.1.3.3"), false},
		{"B-11_other_mask_same_bytes", simple(class, "10.1.2.0"), simple(Mask{}, "10.1.2.0"), false},
		{"B-11_IPv6_prefix", simple(class, "fd00::1"), simple(class, "fd00::2"), true},
		{"B-11_other_IPv6_prefix", simple(class, "fd00::"), simple(Mask{}, "fd00::"), false},
		{"mapped_is_IPv4", simple(Mask{}, "::ffff:10.1.2.3"), simple(Mask{}, "10.1.2.3"), true},
		{"kinds_do_not_meet", simple(Mask{}, "10.1.2.3"), AddrKey(Sticky, scope, Mask{}, netip.MustParseAddr("10.1.2.3")), false},
		{"scopes_do_not_meet", simple(Mask{}, "10.1.2.3"), AddrKey(Simple, Scope{}, Mask{}, netip.MustParseAddr("10.1.2.3")), false},
		{"zeros_count", IDKey(SSL, scope, []byte{0}), IDKey(SSL, scope, []byte{0, 0}), false},
		{"long_is_not_cut", hashed, IDKey(SSL, scope, longer), false},
		{"long_again", hashed, IDKey(SSL, scope, long), true},
		{"hash_as_ID", hashed, IDKey(SSL, scope, hashed.ID()), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.a == tc.b; got != tc.same {
				t.Errorf("%v and %v are the same key: %v, want %v", tc.a, tc.b, got, tc.same)
			}
		})
	}
	for _, k := range []Key{IDKey(SSL, scope, nil), IDKey(SIP, scope, []byte{}), AddrKey(Simple, scope, Mask{}, netip.Addr{})} {
		if !k.IsZero() {
			t.Errorf("an empty ID or address gave the key %v", k)
		}
	}
	if got := simple(class, "10.1.2.3").Prefix(); got != netip.MustParsePrefix("10.1.2.0/24") {
		t.Errorf("prefix of the key: %v", got)
	}
	if got := simple(class, "fd00::5").Prefix(); got != netip.MustParsePrefix("fd00::/64") {
		t.Errorf("prefix of the key: %v", got)
	}
}

func TestWords(t *testing.T) {
	for k := Kind(0); k <= Cookie; k++ {
		if got := k.String(); got != kindWords[k] {
			t.Errorf("kind %d is %q", k, got)
		}
	}
	if Idle.String() != "limit" || Fixed.String() != "timeout" {
		t.Errorf("timers %v and %v", Idle, Fixed)
	}
}

// Pains 71 and 74: what is printed can be typed, anything else is named and refused.
func TestSetClient(t *testing.T) {
	scope := ScopeOf(Globals{}, v1, webPool)
	class, _ := NewMask(24, 64)
	for _, k := range []Key{
		AddrKey(Simple, scope, Mask{}, netip.MustParseAddr("10.1.2.3")),
		AddrKey(Simple, scope, class, netip.MustParseAddr("10.1.2.3")),
		AddrKey(Sticky, scope, class, netip.MustParseAddr("fd00::3")),
		IDKey(SSL, scope, make([]byte, 32)),
		IDKey(SSL, scope, []byte{0, 1}),
		IDKey(SIP, scope, []byte("a84b4c76e66710@pc33.atlanta.example")),
	} {
		var f Filter
		if err := f.SetClient(k.String()); err != nil {
			t.Errorf("%v: %v", k, err)
		} else if !f.Match(&Record{Key: k}) {
			t.Errorf("the text %q does not choose its key", k)
		}
	}
	classKey := AddrKey(Simple, scope, class, netip.MustParseAddr("10.1.2.3"))
	for text, want := range map[string]bool{
		"10.1.2.200": true, "10.1.3.200": false, "10.0.0.0/8": true, "10.1.2.128/25": true, "11.0.0.0/8": false,
		"::ffff:10.1.2.9": true, "0a010200": false, "fd00::/8": false,
	} {
		var f Filter
		if err := f.SetClient(text); err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := f.Match(&Record{Key: classKey}); got != want {
			t.Errorf("%q chooses %v: %v, want %v", text, classKey.Prefix(), got, want)
		}
	}
	for _, text := range []string{"999.1.1.1", "fe80::zz", "", strings.Repeat("a", 300), "10.1.2.3/33", "fe80::1%eth0", "xyz", "abc"} {
		f := Filter{Pool: webPool}
		if err := f.SetClient(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
		if f.Client.IsValid() || f.ID != nil {
			t.Errorf("%q changed the filter", text)
		}
	}
}

func FuzzSetClient(f *testing.F) {
	for _, text := range []string{"10.1.2.3", "10.0.0.0/8", "fd00::/64", "00ff", "999.1.1.1", "::ffff:1.2.3.4", "", "1/2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var filter Filter
		err := filter.SetClient(text)
		if chosen := filter.Client.IsValid() != (len(filter.ID) > 0); chosen != (err == nil) {
			t.Errorf("%q: error %v, filter %+v", text, err, filter)
		}
		if err == nil && filter.Client.IsValid() && filter.Client != filter.Client.Masked() {
			t.Errorf("%q: host bits are left in %v", text, filter.Client)
		}
	})
}

// Keys that differ in a little spread over shards, index and tags: few share a place, whatever they differ in.
func TestHashSpreads(t *testing.T) {
	seed := maphash.MakeSeed()
	const n = 4096
	for name, key := range map[string]func(i int) Key{
		"clients": client,
		"virtual addresses": func(i int) Key {
			virtual := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 80)
			return AddrKey(Simple, ScopeOf(Globals{}, virtual, webPool), Mask{}, n1.Addr())
		},
		"IPv6 networks": func(i int) Key {
			virtual := netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 6: byte(i >> 8), 7: byte(i)}), 80)
			return AddrKey(Simple, ScopeOf(Globals{PersistOnAnyPortSameVIP: true}, virtual, webPool), Mask{}, n1.Addr())
		},
		"ports": func(i int) Key {
			return AddrKey(Simple, ScopeOf(Globals{}, netip.AddrPortFrom(n2.Addr(), uint16(i)), webPool), Mask{}, n1.Addr())
		},
		"pools": func(i int) Key { return AddrKey(Simple, ScopeOf(Globals{}, v1, PoolID(i+1)), Mask{}, n1.Addr()) },
		"lengths and kinds": func(i int) Key {
			return IDKey(SSL+Kind(i%5), Scope{}, make([]byte, 1+i/5%32)) // 160 keys, each about 26 times
		},
	} {
		t.Run(name, func(t *testing.T) {
			whole, shards, low, tags := map[uint64]bool{}, map[uint64]int{}, map[uint64]int{}, map[uint64]int{}
			keys := map[Key]bool{}
			for i := range n {
				k := key(i)
				if keys[k] {
					continue
				}
				keys[k] = true
				h := k.hash(seed)
				whole[h] = true
				shards[h>>40%shardCount]++
				low[h%64]++
				tags[h>>56/4]++
			}
			if len(whole) != len(keys) {
				t.Errorf("%d keys have %d hashes", len(keys), len(whole))
			}
			for what, count := range map[string]map[uint64]int{"shard": shards, "low bits": low, "tag": tags} {
				for at, got := range count {
					if most := 3*len(keys)/64 + 16; got > most {
						t.Errorf("%s %d: %d of %d keys", what, at, got, len(keys))
					}
				}
			}
		})
	}
}
