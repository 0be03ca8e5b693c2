package dataplane

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

// hello reads a hello from the vectors of package tlshello.
func hello(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("tlshello", "testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// idA is the session ID of the vectors.
var idA = append(append([]byte{0xa0}, bytes.Repeat([]byte{0x11}, 30)...), 0xa1)

// withID puts another session ID of 32 bytes into a vector.
func withID(b, id []byte) []byte { return bytes.ReplaceAll(b, idA, id) }

func id32(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// clientHello and serverHello are those of the vectors, with an ID.
func clientHello(t testing.TB, id []byte) []byte { return withID(hello(t, "min_ch_id32"), id) }

func serverHello(t testing.TB, id []byte) []byte { return withID(hello(t, "min_sh_id32_tls12"), id) }

// resized cuts the ID of a hello, which is in one record, to n bytes.
func resized(b []byte, n int) []byte {
	less := int(b[43]) - n
	short := slices.Concat(b[:44], b[44:44+n], b[44+int(b[43]):])
	short[43] = byte(n)
	for _, at := range []int{3, 7} { // lengths of the record and of the message
		binary.BigEndian.PutUint16(short[at:], binary.BigEndian.Uint16(b[at:])-uint16(less))
	}
	return short
}

// greeter is a member that answers the first byte with bytes that are set, then says its name, and then sends back all that it
// gets.
type greeter struct {
	*member
	answer atomic.Pointer[[]byte]
}

// newGreeterAt is a greeter at an IPv4 address, which answers with no session.
func newGreeterAt(t testing.TB, address, name string) *greeter {
	g := &greeter{}
	g.says(hello(t, "min_sh_empty"))
	g.member = newServer(t, address+":0", name, func(m *member, c net.Conn) {
		first := make([]byte, 1)
		if _, err := io.ReadFull(c, first); err != nil {
			return
		}
		_, _ = c.Write(*g.answer.Load())
		fmt.Fprintf(c, "@@%s\n", m.name)
		_, _ = c.Write(first)
		_, _ = io.Copy(c, c)
	})
	return g
}

func (g *greeter) says(answer []byte) { g.answer.Store(&answer) }

// greeters are members that answer with no session.
func greeters(t testing.TB, names ...string) (list []*greeter) {
	for _, name := range names {
		list = append(list, newGreeterAt(t, "127.0.0.1", name))
	}
	return list
}

// sslPool is a pool with persist_mode ssl.
func sslPool(name string, members ...*greeter) *pb.Object {
	var addrs []string
	for _, m := range members {
		addrs = append(addrs, m.addr())
	}
	o := plainPool(name, addrs...)
	o.GetPool().PersistMode = pb.PersistMode_PERSIST_MODE_SSL.Enum()
	return o
}

// greetFrom connects from an address, "" for any, sends pieces, a millisecond apart so that each is read alone as a rule, and returns
// who answers. All bytes must arrive unchanged.
func (s *site) greetFrom(client, virtual string, pieces ...[]byte) (string, net.Conn) {
	s.t.Helper()
	c, err := s.dialFrom(client, virtual)
	if err != nil {
		s.t.Fatal(err)
	}
	sent := bytes.Join(pieces, nil)
	go func() {
		for i, p := range pieces {
			if i > 0 && len(pieces[i-1]) > 0 {
				time.Sleep(time.Millisecond)
			}
			if _, err := c.Write(p); err != nil {
				return
			}
		}
	}()
	head, b := []byte{}, make([]byte, 1)
	for !bytes.HasSuffix(head, []byte("\n")) || !bytes.Contains(head, []byte("@@")) {
		if _, err := c.Read(b); err != nil {
			return "nobody", c
		}
		head = append(head, b[0])
	}
	_, name, _ := strings.Cut(string(head), "@@")
	back := make([]byte, len(sent))
	if _, err := io.ReadFull(c, back); err != nil || !bytes.Equal(back, sent) {
		s.t.Errorf("%s got other bytes than were sent, %v", name, err)
	}
	return strings.TrimSpace(name), c
}

// greet is greetFrom any address, and closes the connection.
func (s *site) greet(virtual string, pieces ...[]byte) string {
	s.t.Helper()
	name, c := s.greetFrom("", virtual, pieces...)
	c.Close()
	return name
}

// bytesOf cuts b into single bytes.
func bytesOf(b []byte) (list [][]byte) {
	for i := range b {
		list = append(list, b[i:i+1])
	}
	return list
}

// dump prints the records, sorted, as KEY NODE.
func (s *site) dump() string {
	s.t.Helper()
	all, err := s.engine.Records(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	var b strings.Builder
	for r := range all {
		fmt.Fprintf(&b, "%s %s %s %s\n", pb.EnumWord(r.GetMode()), r.GetKey(), r.GetVirtual(), r.GetNode())
	}
	return b.String()
}
