// Package certificate reads the files for TLS where both sides show a certificate.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Files name a certificate, its key and the authority of the other side's certificates: all three or none.
type Files struct {
	Cert, Key, CA string
	// Flags are the flags that name them, for messages: "--tls-cert, --tls-key and --tls-ca".
	Flags string
}

// Server returns what a server needs, which takes nobody without a certificate of the authority; nil when no file is named.
func (f Files) Server() (*tls.Config, error) {
	c, authorities, err := f.read()
	if c != nil {
		c.ClientCAs, c.ClientAuth = authorities, tls.RequireAndVerifyClientCert
	}
	return c, err
}

// Client returns what a client needs, which trusts the authority alone; nil when no file is named.
func (f Files) Client() (*tls.Config, error) {
	c, authorities, err := f.read()
	if c != nil {
		c.RootCAs = authorities
	}
	return c, err
}

func (f Files) read() (*tls.Config, *x509.CertPool, error) {
	if f.Cert == "" && f.Key == "" && f.CA == "" {
		return nil, nil, nil
	}
	if f.Cert == "" || f.Key == "" || f.CA == "" {
		return nil, nil, fmt.Errorf("%s belong together", f.Flags)
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, nil, err
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("%s: no certificate in it", f.CA)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, authorities, nil
}
