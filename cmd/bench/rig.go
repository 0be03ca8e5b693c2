package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"bigpipe/cmd/internal/process"
)

// rig is what all measurements share.
type rig struct {
	options  *options
	dir      string // for everything that is started
	self     string // this program, which is its own load and TCP member
	progress io.Writer
	sides    []*side
	block    block
	// descriptors is how many a process may open; no more than the 20,000 that are needed.
	descriptors int
	starts      int // names the folder of the next start
}

func newRig(o *options, dir string, progress io.Writer) (*rig, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := missingPrograms([]program{{"taskset", "Debian package util-linux"}}); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o755); err != nil {
		return nil, err
	}
	for name, size := range bodySizes {
		if err := os.WriteFile(filepath.Join(dir, "files", name), make([]byte, size), 0o644); err != nil {
			return nil, err
		}
	}
	r := &rig{options: o, dir: dir, self: self, progress: progress, block: defaultBlock, descriptors: min(20000, descriptorLimit())}
	for _, name := range o.sides() {
		r.sides = append(r.sides, newSide(name, o.bin))
	}
	return r, nil
}

// placement says which cores the proxy and which the load and the members use.
type placement struct {
	threads     int
	proxy, load []int
}

// placement gives one thread a core of its own and up to three others to the load; more threads share their cores with it.
func (r *rig) placement(threads int) (placement, error) { return place(threads, allowedCores()) }

func place(threads int, cores []int) (placement, error) {
	if need := max(threads, 2); len(cores) < need {
		return placement{}, fmt.Errorf("needs %d cores, there are %d", need, len(cores))
	}
	if threads == 1 {
		return placement{threads: 1, proxy: cores[:1], load: cores[1:min(len(cores), 4)]}, nil
	}
	return placement{threads: threads, proxy: cores[:threads], load: cores[:threads]}, nil
}

func (p placement) String() string {
	if p.threads == 1 {
		return fmt.Sprintf("1 thread: the proxy alone on %s, load and members on %s", coreNames(p.proxy), coreNames(p.load))
	}
	return fmt.Sprintf("%d threads: proxy, load and members share %s", p.threads, coreNames(p.proxy))
}

func coreNames(cores []int) string {
	if len(cores) == 1 {
		return "core " + coreList(cores)
	}
	return "cores " + coreList(cores)
}

// startMembers starts the members of all sides: nginx for large files, else this program, which needs less of the load's
// core.
func (r *rig) startMembers(ctx context.Context, s scenario, at placement) (*process.Process, error) {
	dir, err := r.nextDir()
	if err != nil {
		return nil, err
	}
	var members []netip.AddrPort
	for i := range r.sides {
		members = append(members, r.block.members(i, s.port())...)
	}
	if s.path == "" {
		return r.startOrigin(ctx, dir, at.load, members)
	}
	if err := missingPrograms([]program{{"nginx", "Debian package nginx"}}); err != nil {
		return nil, fmt.Errorf("no member for large files: %w", err)
	}
	config := filepath.Join(dir, "origin.conf")
	data := site{Threads: len(at.load), Members: members, Dir: dir, Root: os.Geteuid() == 0, Descriptors: r.descriptors}
	if err := os.Symlink(filepath.Join(r.dir, "files"), filepath.Join(dir, "files")); err != nil {
		return nil, err
	}
	if err := writeConfig(originConfig, config, data); err != nil {
		return nil, err
	}
	return startListeners(ctx, nginxCommand("origin", at.load, dir, config), dir, members)
}

// startOrigin starts this program as the TCP members at some addresses.
func (r *rig) startOrigin(ctx context.Context, dir string, cores []int, members []netip.AddrPort) (*process.Process, error) {
	threads := len(cores)
	return startListeners(ctx, command{
		name: "origin", cores: cores, env: goThreads(threads), path: r.self,
		args: []string{childCommand, "origin", "-threads", fmt.Sprint(threads), "-addresses", joinAddresses(members)},
	}, dir, members)
}

// startListeners starts a program and waits until it listens on all addresses. It may run also when there is an error.
func startListeners(ctx context.Context, c command, dir string, addrs []netip.AddrPort) (*process.Process, error) {
	p, err := start(c, dir)
	if err != nil {
		return nil, err
	}
	return p, p.Await(ctx, startWait, func() error {
		for _, a := range addrs {
			if err := probeListener(ctx, a); err != nil {
				return err
			}
		}
		return nil
	})
}

// goThreads limits a Go program's threads that run Go code.
func goThreads(n int) []string { return []string{fmt.Sprintf("GOMAXPROCS=%d", n)} }

func joinAddresses(addrs []netip.AddrPort) string {
	words := make([]string, len(addrs))
	for i, a := range addrs {
		words[i] = a.String()
	}
	return strings.Join(words, ",")
}

// instance is a side that runs.
type instance struct {
	side      *side
	listen    netip.AddrPort
	members   []netip.AddrPort
	processes []*process.Process // the measured one first
	pids      []int              // the measured one and its workers
}

// startSide starts side number i for a scenario and waits until it answers. On an error nothing is left running.
func (r *rig) startSide(ctx context.Context, i int, s scenario, at placement) (*instance, error) {
	side := r.sides[i]
	if err := side.missing(); err != nil {
		return nil, err
	}
	if side.name == "nginx" && !s.http && side.tcpModule == "" {
		return nil, errors.New("nginx's stream module is missing: Debian package libnginx-mod-stream")
	}
	dir, err := r.nextDir()
	if err != nil {
		return nil, err
	}
	in := &instance{side: side, listen: r.block.proxy(i, s.port()), members: r.block.members(i, s.port())}
	config := filepath.Join(dir, side.config.Name())
	err = writeConfig(side.config, config, site{
		Threads: at.threads, Listen: in.listen, Members: in.members, HTTP: s.http, UDP: s.udp, TLS: s.tls, PerReq: s.perReq, OneShot: s.oneShot,
		Dir: dir, Root: os.Geteuid() == 0, Module: side.tcpModule, Descriptors: r.descriptors,
	})
	if err != nil {
		return nil, err
	}
	in.processes, err = side.start(ctx, bench{rig: r, dir: dir, config: config, place: at})
	if err == nil {
		err = in.processes[0].Await(ctx, startWait, func() error { return probe(ctx, s, in.listen) })
	}
	if err == nil {
		in.pids, err = family(in.processes[0].PID())
	}
	if err != nil {
		in.stop()
		return nil, err
	}
	return in, nil
}

// stop ends what start started, the last first.
func (in *instance) stop() { stopAll(in.processes) }

func (r *rig) nextDir() (string, error) {
	r.starts++
	dir := filepath.Join(r.dir, fmt.Sprint(r.starts))
	return dir, os.Mkdir(dir, 0o755)
}

func writeConfig(t *template.Template, path string, data site) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(t.Execute(f, data), f.Close())
}
