package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"bigpipe/dataplane"
	pb "bigpipe/proto/bigpipe/v1"
)

// authority writes certificates for 127.0.0.1 into a folder.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	a.cert, a.key = a.sign("ca", template, nil, nil)
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign writes NAME.crt and NAME.key; without a parent the certificate signs itself.
func (a *authority) sign(name string, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for ending, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(a.file(name+ending), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// issue makes a certificate that may serve and be shown.
func (a *authority) issue(name string) tls.Certificate {
	a.t.Helper()
	a.sign(name, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	pair, err := tls.LoadX509KeyPair(a.file(name+".crt"), a.file(name+".key"))
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// TestRun_tls has the admin API and a dataplane on TCP, where both sides show certificates.
func TestRun_tls(t *testing.T) {
	ca := newAuthority(t)
	client, plane := ca.issue("client"), ca.issue("plane")
	ca.issue("mgmtd")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- dataplane.Run(ctx, dataplane.Options{Listener: l, TLS: &tls.Config{
			Certificates: []tls.Certificate{plane}, ClientCAs: ca.pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
		}})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	r := start(t, "--state-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--dataplane", "east="+l.Addr().String(),
		"--tls-cert", ca.file("mgmtd.crt"), "--tls-key", ca.file("mgmtd.key"), "--tls-client-ca", ca.file("ca.crt"),
		"--dataplane-tls-cert", ca.file("mgmtd.crt"), "--dataplane-tls-key", ca.file("mgmtd.key"), "--dataplane-tls-ca", ca.file("ca.crt"))
	address := r.address("mgmtd serves")
	known := dial(t, address, credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{client}, RootCAs: ca.pool}))
	result, out, err := execute(t.Context(), known, pb.ExecuteMode_EXECUTE_MODE_LOAD, "pool web { member 127.0.0.1:1 }")
	if err != nil || result.GetExitStatus() != 0 || len(result.GetDataplanes()) != 1 || result.GetDataplanes()[0].GetDataplane() != "east" {
		t.Errorf("%v %v\n%s%s", result, err, out, r.stderr)
	}
	stranger := dial(t, address, credentials.NewTLS(&tls.Config{RootCAs: ca.pool}))
	if _, err := stranger.ListRevisions(t.Context(), &pb.ListRevisionsRequest{}); err == nil {
		t.Error("a client without a certificate was answered")
	}
	if got := r.stop(); got != 0 {
		t.Errorf("status %d\n%s", got, r.stderr)
	}
}
