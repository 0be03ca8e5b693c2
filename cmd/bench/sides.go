package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"bigpipe/cmd/internal/process"
	pb "bigpipe/proto/bigpipe/v1"
)

// side is a proxy that is measured.
type side struct {
	name string
	// programs that must exist, with the Debian package of each; ours are paths.
	programs []program
	// module is nginx's module for TCP; "" elsewhere.
	tcpModule string
	version   []string // command that prints the version
	// config is the template of its configuration file.
	config *template.Template
	// start starts it with the configuration file and returns the process that is measured first, then its helpers.
	start func(ctx context.Context, b bench) ([]*process.Process, error)
}

type program struct{ path, source string }

// bench is what a side is started with.
type bench struct {
	rig    *rig
	dir    string // of this start: configuration, logs, state
	config string // the configuration file
	place  placement
}

// site fills the configuration templates: one proxy with one service.
type site struct {
	Threads     int
	Listen      netip.AddrPort
	Members     []netip.AddrPort
	HTTP        bool // else TCP or UDP
	UDP         bool
	TLS         bool // persistence by the session ID
	PerReq      bool // a decision and a cookie for each request, where the product makes them once per connection by default
	OneShot     bool // clients make one request per connection: no server connection may outlive it
	Dir         string
	Root        bool   // started by root
	Module      string // nginx's module for TCP
	Descriptors int    // that a process may open
}

// MaxConn is how many client connections HAProxy can take: two descriptors each, and some for itself.
func (s site) MaxConn() int { return (s.Descriptors - 400) / 2 }

// WorkerConnections is how many connections, to clients and members, an nginx worker can take.
func (s site) WorkerConnections() int { return s.Descriptors - 500 }

// sideNames are all sides that there are.
func sideNames() []string { return []string{"bigpipe", "haproxy", "nginx"} }

// newSide returns the side of that name; bin is the folder of our programs.
func newSide(name, bin string) *side {
	switch name {
	case "haproxy":
		return &side{
			name: name, programs: []program{{"haproxy", "Debian package haproxy"}},
			version: []string{"haproxy", "-v"}, config: haproxyConfig, start: startHAProxy,
		}
	case "nginx":
		return &side{
			name: name, programs: []program{{"nginx", "Debian package nginx"}},
			version: []string{"nginx", "-v"}, config: nginxConfig, start: startNginx,
			tcpModule: nginxStreamModule(),
		}
	default:
		var own []program
		for _, p := range []string{"dataplane", "mgmtd", "bigpipe"} {
			own = append(own, program{filepath.Join(bin, p), "make build"})
		}
		return &side{
			name: "bigpipe", programs: own,
			version: []string{filepath.Join(bin, "bigpipe"), "-v"}, config: bigpipeConfig, start: startBigpipe,
		}
	}
}

// missing names the programs that are not there and where they come from.
func (s *side) missing() error { return missingPrograms(s.programs) }

func missingPrograms(programs []program) error {
	var faults []error
	for _, p := range programs {
		if _, err := exec.LookPath(p.path); err != nil {
			faults = append(faults, fmt.Errorf("%s is missing: %s", p.path, p.source))
		}
	}
	return errors.Join(faults...)
}

// modulePaths are where nginx keeps its modules on Debian and its kin.
var modulePaths = []string{"/usr/lib/nginx/modules", "/usr/lib64/nginx/modules", "/usr/share/nginx/modules"}

// nginxStreamModule is the path of nginx's module for TCP, "" if it is not installed.
func nginxStreamModule() string {
	for _, dir := range modulePaths {
		if path := filepath.Join(dir, "ngx_stream_module.so"); exists(path) {
			return path
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func startHAProxy(_ context.Context, b bench) ([]*process.Process, error) {
	p, err := start(command{
		name: "haproxy", cores: b.place.proxy, path: "haproxy", args: []string{"-db", "-q", "-f", b.config},
	}, b.dir)
	return oneProcess(p), err
}

func startNginx(_ context.Context, b bench) ([]*process.Process, error) {
	p, err := start(nginxCommand("nginx", b.place.proxy, b.dir, b.config), b.dir)
	return oneProcess(p), err
}

func nginxCommand(name string, cores []int, dir, config string) command {
	return command{
		name: name, cores: cores, path: "nginx",
		args: []string{"-p", dir, "-c", config, "-e", filepath.Join(dir, name+".errors.log")},
	}
}

func oneProcess(p *process.Process) []*process.Process {
	if p == nil {
		return nil
	}
	return []*process.Process{p}
}

// startBigpipe starts dataplane and mgmtd and loads the configuration.
func startBigpipe(ctx context.Context, b bench) ([]*process.Process, error) {
	running, err := b.startDaemons(ctx)
	if err != nil {
		return running, err
	}
	return running, b.loadBigpipe(ctx, running[1], b.socket("manager.sock"))
}

// socket is the address of a unix socket in the folder of this start.
func (b bench) socket(name string) string { return "unix://" + filepath.Join(b.dir, name) }

// startDaemons starts a dataplane with more flags and then mgmtd, and returns them in this order, also those that run when
// there is an error. Only the dataplane carries traffic; mgmtd keeps to the cores of the load.
func (b bench) startDaemons(ctx context.Context, planeFlags ...string) ([]*process.Process, error) {
	threads := "GOMAXPROCS=" + strconv.Itoa(b.place.threads)
	bin := func(name string) string { return filepath.Join(b.rig.options.bin, name) }
	plane, err := start(command{
		name: "dataplane", cores: b.place.proxy, env: []string{threads}, path: bin("dataplane"),
		args: append([]string{"--state-dir", filepath.Join(b.dir, "plane"), "--listen", b.socket("plane.sock")}, planeFlags...),
	}, b.dir)
	if err != nil {
		return nil, err
	}
	running := []*process.Process{plane}
	if err := plane.Await(ctx, startWait, func() error { return probeSocket(ctx, filepath.Join(b.dir, "plane.sock")) }); err != nil {
		return running, err
	}
	manager, err := start(command{
		name: "mgmtd", cores: b.place.load, env: []string{threads}, path: bin("mgmtd"),
		args: []string{
			"--state-dir", filepath.Join(b.dir, "manager"), "--listen", b.socket("manager.sock"),
			"--dataplane", b.socket("plane.sock"),
		},
	}, b.dir)
	if err != nil {
		return running, err
	}
	running = append(running, manager)
	return running, manager.Await(ctx, startWait, func() error { return probeSocket(ctx, filepath.Join(b.dir, "manager.sock")) })
}

// loadBigpipe loads the configuration as a user does, and waits for mgmtd where it does not answer yet.
func (b bench) loadBigpipe(ctx context.Context, manager *process.Process, address string) error {
	load := command{
		name: "bigpipe", cores: b.place.load, path: filepath.Join(b.rig.options.bin, "bigpipe"),
		args: []string{"-a", address, "-f", b.config},
	}
	var refused error
	err := manager.Await(ctx, startWait, func() error {
		_, err := output(ctx, load, startWait)
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() != pb.ExitUnreachable {
			refused, err = err, nil // trying again would not help
		}
		return err
	})
	return errors.Join(err, refused)
}

// versions are the first lines that the programs print about themselves.
func (r *rig) versions(ctx context.Context) []string {
	commands := [][]string{}
	for _, s := range r.sides {
		if s.missing() == nil {
			commands = append(commands, s.version)
		}
	}
	for _, c := range [][]string{{"nginx", "-v"}, {"wrk", "-v"}} {
		if _, err := exec.LookPath(c[0]); err == nil {
			commands = append(commands, c)
		}
	}
	var lines []string
	seen := map[string]bool{}
	for _, c := range commands {
		if key := strings.Join(c, " "); !seen[key] {
			seen[key] = true
			lines = append(lines, fmt.Sprintf("%s: %s", filepath.Base(c[0]), firstLineOf(ctx, c[0], c[1:]...)))
		}
	}
	return lines
}
