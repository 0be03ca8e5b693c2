package tlshello

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"
)

// recorder keeps what is written.
type recorder struct {
	net.Conn
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	r.bytes.Write(b)
	r.mu.Unlock()
	return r.Conn.Write(b)
}

// certificate makes one for a test.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"site"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// talk makes a connection, and returns what both sides have sent and whether a session was resumed.
func talk(t *testing.T, client, server *tls.Config) (sent, answered []byte, resumed bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	down := &recorder{}
	done := make(chan error, 1)
	go func() {
		var err error
		if down.Conn, err = l.Accept(); err != nil {
			done <- err
			return
		}
		defer down.Close()
		s := tls.Server(down, server)
		if _, err = io.WriteString(s, "hello"); err == nil {
			_, err = s.Read(make([]byte, 1)) // the client closes
		}
		done <- err
	}()
	up := &recorder{}
	if up.Conn, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	c := tls.Client(up, client)
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-done; !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return up.bytes.Bytes(), down.bytes.Bytes(), c.ConnectionState().DidResume
}

// TestPeer reads what Go's client and server say to each other: the ticket of one connection is brought by the next
// (rule A-14), and of TLS 1.3 nothing is learned (rule A-13).
func TestPeer(t *testing.T) {
	server := &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	for _, tt := range []struct {
		name    string
		version uint16
	}{{"A-14_TLS_1.2", tls.VersionTLS12}, {"A-13_TLS_1.3", tls.VersionTLS13}} {
		t.Run(tt.name, func(t *testing.T) {
			client := &tls.Config{
				InsecureSkipVerify: true, ServerName: "site", MaxVersion: tt.version,
				ClientSessionCache: tls.NewLRUClientSessionCache(1),
			}
			sent, answered, _ := talk(t, client, server)
			s := Server{Tickets: true}
			s.Feed(answered)
			given, ok := s.Ticket()
			if tls13 := tt.version == tls.VersionTLS13; s.TLS13() != tls13 || ok == tls13 || !s.Done() {
				t.Fatalf("TLS 1.3: %t, a ticket: %t, done: %t", s.TLS13(), ok, s.Done())
			}
			everySplit(t, sent[:min(len(sent), 1500)], readClient)
			everySplit(t, answered[:min(len(answered), 1500)], readServer)

			sent, _, resumed := talk(t, client, server)
			if !resumed {
				t.Fatal("the session was not resumed")
			}
			var c Client
			if c.Feed(sent); c.State() != Complete {
				t.Fatalf("the hello is %s", c.State())
			}
			if brought, has := c.Ticket(); has != ok || has && brought != given {
				t.Errorf("brought %t %x, given %t %x", has, brought, ok, given)
			}
			if c.PSK() == ok {
				t.Errorf("PSK: %t", c.PSK())
			}
		})
	}
}
