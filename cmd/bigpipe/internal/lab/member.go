package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"
)

// ServeMembers plays pool members until stdin ends: it reads their list as JSON from stdin, listens on every local address,
// writes one line to stdout when all of them listen, and answers each request with JSON that names the node.
func ServeMembers(stdin io.Reader, stdout io.Writer) error {
	decoder := json.NewDecoder(stdin)
	var members []Member
	if err := decoder.Decode(&members); err != nil {
		return fmt.Errorf("list of members: %w", err)
	}
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	var servers []*http.Server
	var running sync.WaitGroup
	defer func() {
		for _, s := range servers {
			_ = s.Close()
		}
		running.Wait()
	}()
	for _, member := range members {
		listener, err := net.Listen("tcp", member.Local)
		if err != nil {
			return fmt.Errorf("member %s: %w", member.Node, err)
		}
		if member.TLS {
			listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{cert}})
		}
		server := &http.Server{Handler: answer(member), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
		servers = append(servers, server)
		running.Go(func() { _ = server.Serve(listener) })
	}
	if _, err := fmt.Fprintf(stdout, "%d members\n", len(members)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.MultiReader(decoder.Buffered(), stdin))
	return err
}

// answer is what a demo member tells about itself and the request.
func answer(m Member) http.Handler {
	type request struct {
		Method string              `json:"method"`
		URI    string              `json:"uri"`
		Host   string              `json:"host"`
		Header map[string][]string `json:"headers"`
		Body   int64               `json:"body_bytes"`
	}
	type reply struct {
		Node    string   `json:"node"`
		Pool    []string `json:"pool"`
		Request request  `json:"request"`
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply{m.Node, m.Pools, request{r.Method, r.RequestURI, r.Host, r.Header, n}})
	})
}

// selfSigned makes a certificate that lasts for a day.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bigpipe lab"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
