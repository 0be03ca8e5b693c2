package forward

import (
	"strings"
	"testing"
)

// Clients that send their head slowly cost neither a goroutine nor much memory while more of it is waited for, and lose nothing.
func TestSlowHeads(t *testing.T) {
	const clients = 300
	o := newOrigin(t, "s", "127.0.0.11:0", nil)
	b := httpLab(t, webPool(o))
	request := get("X-Long: "+strings.Repeat("x", 2000), "X-Last: 1")
	var peers []*peer
	for range clients {
		peers = append(peers, b.dial())
	}
	sent := 0
	for _, upTo := range []int{1, 5, 30, 300, 2040, len(request) - 1} {
		for _, p := range peers {
			p.send(request[sent:upTo])
		}
		sent = upTo
		eventually(t, "all flows parked with what was sent", func() bool {
			parked := 0
			for i := range b.table.shards {
				b.table.each(i, func(f *flow) {
					if f.client.reader.news.Load() != &f.parked || f.client.pulled.Load() != uint64(sent) {
						return
					}
					parked++
					if f.in.pooled != nil || len(f.in.data) > max(2*sent, smallBuffer) {
						t.Fatalf("after %d bytes a flow holds %d, borrowed: %v", sent, len(f.in.data), f.in.pooled != nil)
					}
					// Whoever serves it next does so after this.
					f.client.reader.news.CompareAndSwap(&f.parked, &f.parked)
				})
			}
			return parked == clients
		})
	}
	for _, p := range peers {
		p.send(request[sent:])
		expect(t, p.response(), "s", o)
	}
	if _, requests := o.seen(); len(requests) != clients || requests[clients-1] != requests[0] {
		t.Errorf("%d requests, the last %q", len(requests), requests[len(requests)-1])
	}
}

func TestBufferShrink(t *testing.T) {
	var b buffer
	add := func(text string) {
		for text != "" {
			n := copy(b.free(), text)
			b.w += n
			text = text[n:]
		}
	}
	var want string
	for i, piece := range []string{"a", strings.Repeat("b", smallBuffer), "c", strings.Repeat("d", bufferSize/4), "e", strings.Repeat("f", bufferSize), "g"} {
		add(piece)
		want += piece
		b.shrink()
		if string(b.bytes()) != want {
			t.Fatalf("after piece %d: %d bytes, want %d", i, b.len(), len(want))
		}
		if b.discard(1); i%2 == 0 {
			b.shrink()
		}
		want = want[1:]
	}
	b.discard(b.len())
	if b.shrink(); b.data != nil || b.pooled != nil {
		t.Error("an empty buffer holds memory")
	}
	add("x")
	b.shrink()
	b.discard(1)
	if len(b.free()) != bufferSize {
		t.Error("what is read next goes into little memory")
	}
	b.drop()
}
