// Package client talks to mgmtd's admin service for the command line.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"bigpipe/cmd/internal/certificate"
	pb "bigpipe/proto/bigpipe/v1"
)

// pieceSize is how much text goes into one message.
const pieceSize = 64 << 10

// maxReply bounds one message of a reply, in bytes.
const maxReply = 16 << 20

// connectTime is how long mgmtd may take to accept a connection and to greet.
const connectTime = 5 * time.Second

// ErrUnreachable marks a mgmtd that does not answer (pb.ExitUnreachable).
var ErrUnreachable = errors.New("mgmtd is not reachable")

// TLS names the files for a TCP address; empty for a unix socket.
type TLS struct {
	Cert, Key, CA string
}

// Client is a connection to mgmtd. It dials when it is first used.
type Client struct {
	conn    *grpc.ClientConn
	Address string
	Admin   pb.AdminClient
}

// DefaultAddress is where mgmtd listens when nobody says otherwise: the value of BIGPIPE_ADDRESS that the caller read, else
// the system's socket, else the user's.
func DefaultAddress(environment, runtimeDir string) string {
	if environment != "" {
		return environment
	}
	const system = "/run/bigpipe/mgmtd.sock"
	if runtimeDir == "" {
		return "unix://" + system
	}
	own := filepath.Join(runtimeDir, "bigpipe", "mgmtd.sock")
	if _, err := os.Stat(system); err != nil {
		if _, err := os.Stat(own); err == nil {
			return "unix://" + own
		}
	}
	return "unix://" + system
}

// New returns a client of the mgmtd at address.
func New(address string, files TLS) (*Client, error) {
	creds := insecure.NewCredentials()
	if !strings.HasPrefix(address, "unix:") {
		var err error
		if creds, err = files.credentials(); err != nil {
			return nil, fmt.Errorf("address %s: %w", address, err)
		}
	}
	conn, err := grpc.NewClient(pb.DialTarget(address), grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTime}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)))
	if err != nil {
		return nil, fmt.Errorf("address %s: %w", address, err)
	}
	return &Client{conn: conn, Address: address, Admin: pb.NewAdminClient(conn)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

func (t TLS) credentials() (credentials.TransportCredentials, error) {
	if t.Cert == "" || t.Key == "" || t.CA == "" {
		return nil, errors.New("a TCP address needs --tls-cert, --tls-key and --tls-ca")
	}
	config, err := certificate.Files{Cert: t.Cert, Key: t.Key, CA: t.CA}.Client()
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(config), nil
}

// MayBeStored is added where it is not known whether mgmtd has carried out what it was sent.
const MayBeStored = "if it was a change, it may be stored all the same: see bigpipe history"

// Execute sends text in pieces, writes the reply's output to stdout as it comes, and hands each diagnostic to report. The error is ErrUnreachable
// when mgmtd does not answer; a fault in the text is in the diagnostics and in the result's exit status.
func (c *Client) Execute(ctx context.Context, header *pb.ExecuteHeader, text []byte, stdout io.Writer, report func([]*pb.Diagnostic)) (*pb.ExecuteResult, error) {
	stream, err := c.Admin.Execute(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	request := &pb.ExecuteRequest{Header: header}
	for {
		n := min(pieceSize, len(text))
		request.Text, text = text[:n], text[n:]
		if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
			return nil, c.explain(err)
		}
		if len(text) == 0 {
			break
		}
		request = &pb.ExecuteRequest{}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, c.explain(err)
	}
	for {
		reply, err := stream.Recv()
		if err != nil {
			return nil, c.lost(err)
		}
		if _, err := stdout.Write(reply.GetOutput()); err != nil {
			return nil, err
		}
		if len(reply.GetDiagnostics()) > 0 {
			report(reply.GetDiagnostics())
		}
		if result := reply.GetResult(); result != nil {
			return result, nil
		}
	}
}

// lost is explain where mgmtd has the whole text: when it is gone, what became of the text is not known.
func (c *Client) lost(err error) error {
	explained := c.explain(err)
	if errors.Is(err, io.EOF) || errors.Is(explained, ErrUnreachable) {
		return fmt.Errorf("%w; %s", explained, MayBeStored)
	}
	return explained
}

// explain turns an RPC error into a sentence for the user.
func (c *Client) explain(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("mgmtd at %s ended its reply early", c.Address)
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	if s.Code() == codes.Unavailable {
		reason := s.Message()
		if i := strings.LastIndex(reason, ": "); i >= 0 { // gRPC puts the operation's own words last
			reason = strings.Trim(reason[i+2:], `"`)
		}
		return fmt.Errorf("%w at %s: %s", ErrUnreachable, c.Address, reason)
	}
	if s.Code() == codes.Unimplemented {
		return fmt.Errorf("what listens at %s is not mgmtd: %s", c.Address, s.Message())
	}
	return errors.New(s.Message())
}
