package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write makes a certificate that signs itself, and its key, in files.
func write(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestFiles(t *testing.T) {
	cert, key := write(t)
	tests := map[string]struct {
		files Files
		want  string // of the error; "" for none
	}{
		"none":       {Files{Flags: "a, b and c"}, ""},
		"all":        {Files{Cert: cert, Key: key, CA: cert}, ""},
		"cert_alone": {Files{Cert: cert, Flags: "a, b and c"}, "a, b and c belong together"},
		"ca_alone":   {Files{CA: cert, Flags: "a, b and c"}, "a, b and c belong together"},
		"wrong_key":  {Files{Cert: cert, Key: cert, CA: cert}, "tls:"},
		"no_ca_file": {Files{Cert: cert, Key: key, CA: cert + "x"}, "no such file"},
		"empty_ca":   {Files{Cert: cert, Key: key, CA: key}, key + ": no certificate in it"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, err := test.files.Server()
			client, clientErr := test.files.Client()
			for _, err := range []error{err, clientErr} {
				if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, not %q", err, test.want)
				}
			}
			all := name == "all"
			if (server != nil) != all || (client != nil) != all {
				t.Fatalf("server %v, client %v", server, client)
			}
			if all && (server.ClientAuth != tls.RequireAndVerifyClientCert || server.ClientCAs == nil || client.RootCAs == nil) {
				t.Error("not both sides are looked at")
			}
		})
	}
}
