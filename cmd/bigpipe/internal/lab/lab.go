// Package lab runs a production bigip.conf on loopback: mgmtd, a dataplane and demo members as processes.
package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"bigpipe/cmd/bigpipe/internal/client"
	"bigpipe/cmd/internal/classfile"
	pb "bigpipe/proto/bigpipe/v1"
)

// startTime is how long the processes may take until they answer.
const startTime = 20 * time.Second

// Options say what to run and where.
type Options struct {
	// Program is this program's own path; mgmtd and dataplane stand beside it.
	Program string
	// File names the text for diagnostics; Text is its contents and Objects what it configures.
	File    string
	Text    []byte
	Objects []*pb.Object
	// StateDir keeps state and logs; "" means a folder that is removed at the end.
	StateDir string
	// Listen is mgmtd's admin address.
	Listen string
	// Metrics is mgmtd's address for metrics; "" for none.
	Metrics string
	Stdout  io.Writer
	Stderr  io.Writer
	// Report prints diagnostics; Effects names what a load did not bring into effect.
	Report  func([]*pb.Diagnostic)
	Effects func(*pb.ExecuteResult)
}

// ErrRefused says that mgmtd did not take the file; the diagnostics were reported.
var ErrRefused = errors.New("the file was not loaded")

// errStopped marks a process that ended by itself.
var errStopped = errors.New("stopped")

// Run starts everything, loads the file, prints the table of virtual servers, and calls interact. When that returns, or ctx
// ends, everything that was started is ended.
func Run(ctx context.Context, o Options, interact func(context.Context, *client.Client) error) (err error) {
	mapping, err := NewMapping(o.Objects)
	if err != nil {
		return err
	}
	dir := o.StateDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bigpipe-lab-"); err != nil {
			return err
		}
		defer func() {
			if !errors.Is(err, errStopped) { // its log explains it
				os.RemoveAll(dir)
			}
		}()
	} else {
		if dir, err = filepath.Abs(dir); err != nil { // a socket's address has an absolute path
			return err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	children := newProcesses(dir)
	defer children.stop()
	c, err := start(ctx, o, dir, mapping, children)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := load(ctx, o, c); err != nil {
		return err
	}
	if err := printTable(ctx, o, c, mapping); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	finished := make(chan struct{})
	defer func() { <-finished }()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		defer close(finished)
		select {
		case p := <-children.stopped:
			cancel(fmt.Errorf("%s %w; its log is %s, which ends: %s", p.Name, errStopped, p.Log, p.Tail(1)))
		case <-ended:
		}
	}()
	if err := interact(ctx, c); err != nil {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, errStopped) {
		return cause
	}
	return nil
}

// start runs the members, the dataplane and mgmtd, and waits until mgmtd has reached the dataplane.
func start(ctx context.Context, o Options, dir string, mapping *Mapping, children *processes) (*client.Client, error) {
	mapFile := filepath.Join(dir, "map")
	if err := os.WriteFile(mapFile, []byte(mapping.File()), 0o600); err != nil {
		return nil, err
	}
	list, err := json.Marshal(mapping.Members(o.Objects))
	if err != nil {
		return nil, err
	}
	members, err := children.run("members", o.Program, append(list, '\n'), "lab-members")
	if err != nil {
		return nil, err
	}
	if _, err := members.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the demo members do not start (does another lab run?): %s", children.last().Tail(1))
	}
	beside := filepath.Dir(o.Program)
	socket := "unix://" + filepath.Join(dir, "dataplane.sock")
	if _, err := children.run("dataplane", filepath.Join(beside, "dataplane"), nil,
		"--state-dir", filepath.Join(dir, "dataplane"), "--listen", socket, "--map-file", mapFile, "--map-only"); err != nil {
		return nil, err
	}
	args := []string{"--state-dir", filepath.Join(dir, "mgmtd"), "--listen", o.Listen, "--dataplane", socket}
	if o.Metrics != "" {
		args = append(args, "--metrics", o.Metrics)
	}
	if _, err := children.run("mgmtd", filepath.Join(beside, "mgmtd"), nil, args...); err != nil {
		return nil, err
	}
	c, err := client.New(o.Listen, client.TLS{})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err = waitFor(ctx, children.stopped, func() error {
		reply, err := c.Admin.ListDataplanes(ctx, &pb.ListDataplanesRequest{})
		if err != nil {
			return err
		}
		for _, d := range reply.GetDataplanes() {
			if !d.GetConnected() {
				return fmt.Errorf("dataplane %s: %s", d.GetDataplane(), d.GetError())
			}
		}
		return nil
	})
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%w; mgmtd says: %s", err, children.last().Tail(1))
	}
	return c, nil
}

func load(ctx context.Context, o Options, c *client.Client) error {
	header := &pb.ExecuteHeader{
		Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, Origin: &pb.Position{File: o.File, Line: 1, Column: 1},
		Output: pb.OutputFormat_OUTPUT_FORMAT_TEXT, Actor: "lab",
	}
	header.Files, header.UnreadableFiles = classfile.Read(o.Text)
	result, err := c.Execute(ctx, header, o.Text, o.Stdout, o.Report)
	if err != nil {
		return err
	}
	switch result.GetExitStatus() {
	case pb.ExitDone, pb.ExitNotInEffect:
		o.Effects(result)
		return nil
	default:
		return ErrRefused
	}
}

// printTable prints one line a virtual server: where it was, where to reach it now, what it does.
func printTable(ctx context.Context, o Options, c *client.Client, mapping *Mapping) error {
	statistics, err := c.Admin.Statistics(ctx, &pb.StatisticsRequest{})
	if err != nil {
		return err
	}
	uses := map[string]string{}
	pools := map[string]*pb.Pool{}
	for _, object := range o.Objects {
		if p := object.GetPool(); p != nil {
			pools[p.GetName()] = p
		}
		if v := object.GetVirtual(); v != nil {
			uses[v.GetAddress()] = useOf(v)
		}
	}
	w := tabwriter.NewWriter(o.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "virtual server\ttry\tuses\tprotocol\t")
	for _, v := range statistics.GetVirtuals() {
		use := uses[v.GetAddress()]
		note := ""
		if p := pools[strings.TrimPrefix(use, "pool ")]; p != nil && p.PersistMode != nil {
			note = ", persist " + pb.EnumWord(p.GetPersistMode())
		}
		if !v.GetInEffect() {
			fmt.Fprintf(w, "%s\t-\t%s%s\t%s\tnot in effect: %s\n", v.GetAddress(), use, note, v.GetProtocol(), v.GetReason())
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s%s\t%s\t\n", v.GetAddress(), url(mapping, v, pools[strings.TrimPrefix(use, "pool ")]), use, note, v.GetProtocol())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Stdout, "\nmgmtd listens on %s\n", o.Listen)
	return err
}

func useOf(v *pb.VirtualServer) string {
	if v.Rule != nil {
		return "rule " + v.GetRule()
	}
	var names []string
	for _, p := range v.GetPools() {
		names = append(names, p.GetPool())
	}
	return "pool " + strings.Join(names, ", ")
}

// url is https where the members speak TLS, since TLS passes through untouched.
func url(mapping *Mapping, v *pb.VirtualStatistics, p *pb.Pool) string {
	local, ok := mapping.Local(v.GetAddress())
	if !ok {
		return "-"
	}
	scheme := "http"
	if len(p.GetMembers()) > 0 {
		if member, err := netip.ParseAddrPort(p.GetMembers()[0].GetAddress()); err == nil && member.Port() == 443 {
			scheme = "https"
		}
	}
	return scheme + "://" + local.String() + "/"
}
