package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"bigpipe/cmd/internal/certificate"
	"bigpipe/cmd/internal/daemon"
	"bigpipe/dataplane"
	"bigpipe/mgmtd"
)

const (
	defaultDataplane = "unix:///run/bigpipe/dataplane.sock"
	// systemDir and socketName are where the admin socket is by default.
	systemDir  = "/run/bigpipe"
	socketName = "mgmtd.sock"
	// maxMessage is the largest message that is accepted, in bytes. Texts come in pieces far smaller.
	maxMessage = 16 << 20
)

type flags struct {
	StateDir  string   `default:"/var/lib/bigpipe/mgmtd" placeholder:"DIR" help:"Where the configuration is kept (${default})."`
	Listen    []string `sep:"none" placeholder:"ADDR" help:"Admin API: unix:///path or host:port; repeatable. Default: $$BIGPIPE_ADDRESS, else unix:///run/bigpipe/mgmtd.sock, else unix://$$XDG_RUNTIME_DIR/bigpipe/mgmtd.sock."`
	Dataplane []string `sep:"none" placeholder:"[NAME=]ADDR" help:"A dataplane to push to; repeatable. Default: unix:///run/bigpipe/dataplane.sock."`
	Embedded  bool     `help:"Run a dataplane in this process instead."`
	Load      string   `placeholder:"FILE" help:"Load FILE if the store is empty; - is standard input."`
	Metrics   string   `placeholder:"HOST:PORT" help:"Serve /metrics, /healthz and /readyz; on loopback /debug/pprof too."`

	TLSCert     string `name:"tls-cert" placeholder:"FILE" help:"Certificate for a TCP address of the admin API."`
	TLSKey      string `name:"tls-key" placeholder:"FILE" help:"Its key."`
	TLSClientCA string `name:"tls-client-ca" placeholder:"FILE" help:"CA of the certificates that clients may show."`

	DataplaneTLSCert string `name:"dataplane-tls-cert" placeholder:"FILE" help:"Certificate to show to dataplanes at TCP addresses."`
	DataplaneTLSKey  string `name:"dataplane-tls-key" placeholder:"FILE" help:"Its key."`
	DataplaneTLSCA   string `name:"dataplane-tls-ca" placeholder:"FILE" help:"CA of the dataplanes' certificates."`

	Map     []string `placeholder:"REAL=LOCAL" help:"For the embedded dataplane: bind or dial LOCAL where the configuration says REAL."`
	MapFile []string `placeholder:"FILE" help:"The same, a pair a line."`
	MapOnly bool     `help:"For the embedded dataplane: never bind or dial an address that is not mapped."`

	AssignAddresses string `placeholder:"DEV" help:"For the embedded dataplane: add virtual addresses that this host lacks to the network device DEV."`

	Version kong.VersionFlag `help:"Print the version."`
}

// check finds flags that do not fit together. All faults are reported.
func (f *flags) check() error {
	var faults []error
	if f.Embedded && len(f.Dataplane) > 0 {
		faults = append(faults, errors.New("--embedded and --dataplane exclude each other"))
	}
	if !f.Embedded && (len(f.Map) > 0 || len(f.MapFile) > 0 || f.MapOnly || f.AssignAddresses != "") {
		faults = append(faults, errors.New("--map, --map-file, --map-only and --assign-addresses are for --embedded"))
	}
	for _, address := range f.Listen {
		if !isUnix(address) && f.TLSCert == "" {
			faults = append(faults, fmt.Errorf("--listen %s: a TCP address needs --tls-cert, --tls-key and --tls-client-ca", address))
		}
	}
	for _, text := range f.Dataplane {
		if _, address := splitName(text); !isUnix(address) && f.DataplaneTLSCert == "" {
			faults = append(faults, fmt.Errorf("--dataplane %s: a TCP address needs --dataplane-tls-cert, --dataplane-tls-key and --dataplane-tls-ca", text))
		}
	}
	return errors.Join(faults...)
}

// files are what the files and pairs say that flags name.
type files struct {
	// admin is the TLS of the admin API; nil where no file is named.
	admin *tls.Config
	// dataplane is what dataplanes at TCP addresses are shown; nil where no file is named.
	dataplane credentials.TransportCredentials
	// addresses are those of the embedded dataplane.
	addresses *dataplane.AddressMap
}

// read reads what the flags name. All faults are reported.
func (f *flags) read() (*files, error) {
	read := &files{}
	var adminFault, mapFault error
	read.admin, adminFault = certificate.Files{
		Cert: f.TLSCert, Key: f.TLSKey, CA: f.TLSClientCA, Flags: "--tls-cert, --tls-key and --tls-client-ca",
	}.Server()
	config, dataplaneFault := certificate.Files{
		Cert: f.DataplaneTLSCert, Key: f.DataplaneTLSKey, CA: f.DataplaneTLSCA,
		Flags: "--dataplane-tls-cert, --dataplane-tls-key and --dataplane-tls-ca",
	}.Client()
	if config != nil {
		read.dataplane = credentials.NewTLS(config)
	}
	read.addresses, mapFault = daemon.Mapping{Pairs: f.Map, Files: f.MapFile, Only: f.MapOnly}.Read()
	return read, errors.Join(adminFault, dataplaneFault, mapFault)
}

func isUnix(address string) bool { return strings.HasPrefix(address, "unix://") }

// splitName takes NAME= off an address.
func splitName(text string) (name, address string) {
	if name, address, ok := strings.Cut(text, "="); ok && !strings.ContainsAny(name, "/:[") {
		return name, address
	}
	return "", text
}

// admin is a listener of the admin service.
type admin struct {
	net.Listener
	tls *tls.Config
}

// server returns a gRPC server for it: TLS on TCP, where a client must show a certificate.
func (a admin) server() *grpc.Server {
	creds := insecure.NewCredentials()
	if a.tls != nil && a.Addr().Network() == "tcp" {
		creds = credentials.NewTLS(a.tls)
	}
	return grpc.NewServer(grpc.Creds(creds), grpc.MaxRecvMsgSize(maxMessage))
}

// listeners opens all admin addresses, or none. config is for those at TCP.
func (f *flags) listeners(ctx context.Context, env environment, config *tls.Config) ([]admin, error) {
	addresses := f.Listen
	if len(addresses) == 0 {
		address, err := defaultListen(env, systemDir)
		if err != nil {
			return nil, err
		}
		addresses = []string{address}
	}
	var list []admin
	for _, address := range addresses {
		l, err := dataplane.Listen(ctx, address, config != nil)
		if err != nil {
			return nil, errors.Join(err, closeAll(list))
		}
		list = append(list, admin{Listener: l, tls: config})
	}
	return list, nil
}

func closeAll(list []admin) error {
	var errs []error
	for _, l := range list {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// defaultListen is where the CLI looks: the address of its environment, the system's folder where this user may write
// there, the user's own.
func defaultListen(env environment, system string) (string, error) {
	if env.address != "" {
		return env.address, nil
	}
	err := os.MkdirAll(system, 0o755)
	if err == nil {
		err = unix.Access(system, unix.W_OK)
	}
	if err == nil {
		return "unix://" + filepath.Join(system, socketName), nil
	}
	if env.runtimeDir == "" {
		return "", fmt.Errorf("no place for the admin socket: %s: %w; name one with --listen", system, err)
	}
	return "unix://" + filepath.Join(env.runtimeDir, "bigpipe", socketName), nil
}

// dataplanes names those to push to. creds are for those at TCP.
func (f *flags) dataplanes(local *embedded, creds credentials.TransportCredentials) []mgmtd.Dataplane {
	if local != nil {
		return []mgmtd.Dataplane{{Name: "local", Address: local.address}}
	}
	list := f.Dataplane
	if len(list) == 0 {
		list = []string{defaultDataplane}
	}
	sockets := 0
	for _, text := range list {
		if _, address := splitName(text); isUnix(address) {
			sockets++
		}
	}
	var dataplanes []mgmtd.Dataplane
	for _, text := range list {
		name, address := splitName(text)
		d := mgmtd.Dataplane{Name: name, Address: address}
		if !isUnix(address) {
			d.Credentials = creds
		}
		if d.Name == "" {
			d.Name = dataplaneName(address, sockets)
		}
		dataplanes = append(dataplanes, d)
	}
	return dataplanes
}

// dataplaneName is local for the only socket, else the socket's file without its ending; of a TCP address the address.
func dataplaneName(address string, sockets int) string {
	switch {
	case !isUnix(address):
		return address
	case sockets == 1:
		return "local"
	}
	return strings.TrimSuffix(filepath.Base(address), ".sock")
}
