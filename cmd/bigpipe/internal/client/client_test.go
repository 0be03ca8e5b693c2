package client

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "bigpipe/proto/bigpipe/v1"
)

// gone is a mgmtd that ends once it has a text.
type gone struct {
	pb.UnimplementedAdminServer
	err error
}

func (g *gone) Execute(stream grpc.BidiStreamingServer[pb.ExecuteRequest, pb.ExecuteReply]) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return g.err
		} else if err != nil {
			return err
		}
	}
}

// A mgmtd that is gone before it was asked has done nothing; one that had the text may have done it.
func TestLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.sock")
	execute := func() error {
		c, err := New("unix://"+path, TLS{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Execute(t.Context(), &pb.ExecuteHeader{}, []byte("pool web { }"), io.Discard, func([]*pb.Diagnostic) {})
		return err
	}
	if err := execute(); !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), MayBeStored) {
		t.Errorf("nobody listens: %v", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	g, s := &gone{}, grpc.NewServer()
	pb.RegisterAdminServer(s, g)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	defer func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	g.err = status.Error(codes.Unavailable, "error reading from server: EOF")
	if err := execute(); !errors.Is(err, ErrUnreachable) || !strings.HasSuffix(err.Error(), MayBeStored) {
		t.Errorf("it went away: %v", err)
	}
	g.err = nil
	if err := execute(); err == nil || !strings.HasSuffix(err.Error(), MayBeStored) {
		t.Errorf("it ended early: %v", err)
	}
	g.err = status.Error(codes.InvalidArgument, "no")
	if err := execute(); err == nil || strings.Contains(err.Error(), MayBeStored) {
		t.Errorf("it refused: %v", err)
	}
}
