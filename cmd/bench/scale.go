package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"bigpipe/cmd/internal/process"
)

// scaleName is the label of the measurement of a large configuration, for -only.
const scaleName = "scale"

const scaleAbout = "a configuration of 10,000 pools of four members and 10,000 virtual servers: check, load, one command, completion, memory"

// scaleSize is how many pools, and how many virtual servers, the large configuration has.
const scaleSize = 10000

// scaleRepeats is how often a round does what takes milliseconds.
const scaleRepeats = 5

// The gauges of the large configuration.
const (
	checkTime      = "check (bigpipe -d -f)"
	loadTime       = "load, in effect on a dataplane (bigpipe -f)"
	commandTime    = "one more pool command"
	completionTime = "completion, whole process (bigpipe __complete)"
	firstTabTime   = "completion in the shell, first Tab"
	nextTabTime    = "completion in the shell, next Tab"
	managerMemory  = "mgmtd, resident memory"
	virtualMemory  = "dataplane, resident memory per virtual server with its pool"
)

func newScalePanel(size, bytes int) *panel {
	return &panel{
		title: fmt.Sprintf("SCALE: %d pools of four members, %d virtual servers, %.1f MB of text; both daemons share all cores", size, size, float64(bytes)/1e6),
		gauges: []*gauge{
			{name: checkTime, unit: "s", print: printRatio, limit: 2},
			{name: loadTime, unit: "s", print: printRatio, limit: 5},
			{name: commandTime, unit: "ms", print: printTenths, limit: 50},
			{name: completionTime, unit: "ms", print: printTenths, limit: 30},
			{name: firstTabTime, unit: "ms", print: printTenths, limit: 30},
			{name: nextTabTime, unit: "ms", print: printTenths, limit: 30},
			{name: managerMemory, unit: "MB", print: printWhole, limit: 500},
			{name: virtualMemory, unit: "KiB", print: printTenths, limit: 12},
		},
	}
}

// The real networks of the large configuration. The map brings them to loopback.
const (
	scaleVirtuals    = "10.3"
	scaleMembers     = 16 // 10.16, and the three after it
	scaleMemberCount = 4
)

// scaleMemberNet is the network of each pool's member number m.
func scaleMemberNet(m int) string { return fmt.Sprintf("10.%d", scaleMembers+m) }

// scalePort is the port of its virtual servers and members: one that needs no privilege.
const scalePort = 8080

// scaleAddress is address number i of a network, its first two bytes.
func scaleAddress(network string, i int) string {
	return fmt.Sprintf("%s.%d.%d", network, i/250, i%250+1)
}

// scalePool is the name of pool number i.
func scalePool(i int) string { return fmt.Sprintf("web_%05d", i) }

// scaleConfig is a file of size pools of four members and as many virtual servers, 64,000 at most.
func scaleConfig(size int) []byte {
	var text bytes.Buffer
	for i := range size {
		fmt.Fprintf(&text, "pool %s {\n   lb_mode ratio_member\n   persist_mode simple\n   simple_timeout 300\n   simple_mask 255.255.255.0\n", scalePool(i))
		for m := range scaleMemberCount {
			fmt.Fprintf(&text, "   member %s:%d ratio %d\n", scaleAddress(scaleMemberNet(m), i), scalePort, m+1)
		}
		text.WriteString("}\n")
	}
	for i := range size {
		fmt.Fprintf(&text, "virtual %s:%d {\n   use pool %s\n}\n", scaleAddress(scaleVirtuals, i), scalePort, scalePool(i))
	}
	return text.Bytes()
}

// scaleMap is the dataplane's map from the real networks to loopback networks beside the block.
func (b block) scaleMap() string {
	pairs := []string{fmt.Sprintf("%s.0.0/16=127.%d.0.0/16", scaleVirtuals, b+1)}
	for m := range scaleMemberCount {
		pairs = append(pairs, fmt.Sprintf("%s.0.0/16=127.%d.0.0/16", scaleMemberNet(m), int(b)+2+m))
	}
	return strings.Join(pairs, ",")
}

// scaleVirtual is where virtual server number i listens.
func (b block) scaleVirtual(i int) netip.AddrPort { return scaleLocal(int(b)+1, i) }

// scaleMembers are where the members of pool number i listen.
func (b block) scaleMembers(i int) []netip.AddrPort {
	var members []netip.AddrPort
	for m := range scaleMemberCount {
		members = append(members, scaleLocal(int(b)+2+m, i))
	}
	return members
}

func scaleLocal(network, i int) netip.AddrPort {
	return netip.MustParseAddrPort(fmt.Sprintf("%s:%d", scaleAddress(fmt.Sprintf("127.%d", network), i), scalePort))
}

// measureScale measures the large configuration of size pools and virtual servers, with fresh daemons in each round. What
// fails is named in the report.
func (r *rig) measureScale(ctx context.Context, size int, rep *report) {
	text := scaleConfig(size)
	p := newScalePanel(size, len(text))
	rep.panels = append(rep.panels, p)
	if need := size + 500; r.descriptors < need {
		rep.miss(scaleName, fmt.Errorf("a process may open %d descriptors, %d virtual servers need %d", r.descriptors, size, need))
		return
	}
	if err := newSide(judged, r.options.bin).missing(); err != nil {
		rep.miss(scaleName, err)
		return
	}
	for round := range r.options.rounds {
		if ctx.Err() != nil {
			return
		}
		if err := r.scaleRound(ctx, size, text, p); err != nil {
			rep.missUnlessInterrupted(ctx, fmt.Sprintf("%s round %d", scaleName, round+1), err)
			continue
		}
		fmt.Fprintf(r.progress, "%s round %d: done\n", scaleName, round+1)
	}
}

// large is the large configuration on fresh daemons.
type large struct {
	bench
	size    int
	panel   *panel
	program string // bigpipe
	address string // mgmtd's
}

func (r *rig) scaleRound(ctx context.Context, size int, text []byte, p *panel) error {
	dir, err := r.nextDir()
	if err != nil {
		return err
	}
	cores := allowedCores()
	l := &large{
		bench: bench{rig: r, dir: dir, config: filepath.Join(dir, "bigip.conf"), place: placement{threads: len(cores), proxy: cores, load: cores}},
		size:  size, panel: p, program: filepath.Join(r.options.bin, "bigpipe"),
	}
	l.address = l.socket("manager.sock")
	if err := os.WriteFile(l.config, text, 0o644); err != nil {
		return err
	}
	if err := l.time(ctx, checkTime, time.Second, "-d", "-f", l.config); err != nil {
		return err
	}
	var members []netip.AddrPort
	for _, i := range l.served() {
		members = append(members, r.block.scaleMembers(i)...)
	}
	origin, err := r.startOrigin(ctx, dir, cores, members)
	if origin != nil {
		defer stop(origin)
	}
	if err != nil {
		return err
	}
	daemons, err := l.startDaemons(ctx, "--map", r.block.scaleMap(), "--map-only")
	defer func() { stopAll(daemons) }()
	if err != nil {
		return err
	}
	return l.measure(ctx, daemons[0], daemons[1])
}

// served are the numbers of the virtual servers whose members run: they prove that a load is in effect.
func (l *large) served() []int { return []int{0, l.size / 2, l.size - 1} }

// measure loads the file and does what an operator does then.
func (l *large) measure(ctx context.Context, plane, manager *process.Process) error {
	empty, err := residentSet(plane.PID())
	if err != nil {
		return err
	}
	_, took, err := l.run(ctx, "-f", l.config)
	if err != nil {
		return err
	}
	for _, i := range l.served() {
		if err := probe(ctx, scenario{}, l.rig.block.scaleVirtual(i)); err != nil {
			return fmt.Errorf("virtual server %d right after the load: %w", i, err)
		}
	}
	l.panel.add(loadTime, took.Seconds())
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	loaded, err := residentSet(plane.PID())
	if err != nil {
		return err
	}
	l.panel.add(virtualMemory, float64(loaded-empty)/float64(l.size)/1024)
	for i := range scaleRepeats {
		name, member := fmt.Sprint("one_more_", i), fmt.Sprintf("%s.255.%d:%d", scaleMemberNet(0), i+1, scalePort)
		if err := l.time(ctx, commandTime, time.Millisecond, "pool", name, "{", "member", member, "}"); err != nil {
			return err
		}
	}
	for range scaleRepeats {
		if err := l.complete(ctx); err != nil {
			return err
		}
	}
	if err := l.tabs(ctx); err != nil {
		return err
	}
	used, err := residentSet(manager.PID())
	if err != nil {
		return err
	}
	l.panel.add(managerMemory, float64(used)/1e6)
	return errors.Join(plane.Ended(), manager.Ended())
}

// scaleWait is how long a command may take before it counts as failed.
const scaleWait = time.Minute

// run runs bigpipe without pinning it and returns what it printed and how long it took from start to end. Any other exit
// status than that of a change in effect everywhere is an error.
func (l *large) run(ctx context.Context, args ...string) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, scaleWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.program, args...)
	cmd.Env = l.environment()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	err := cmd.Run()
	took := time.Since(begin)
	if err != nil {
		return nil, 0, fmt.Errorf("bigpipe %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), took, nil
}

func (l *large) environment() []string {
	return append(os.Environ(), "BIGPIPE_ADDRESS="+l.address, "HOME="+l.dir, "TERM=xterm", "PAGER=cat", "NO_COLOR=1")
}

// time runs bigpipe and adds the time to a gauge.
func (l *large) time(ctx context.Context, name string, unit time.Duration, args ...string) error {
	_, took, err := l.run(ctx, args...)
	if err != nil {
		return err
	}
	l.panel.add(name, float64(took)/float64(unit))
	return nil
}

// halfName is a pool's name without its last digit: ten pools begin with it, or as many as there are.
func (l *large) halfName() string { return scalePool(l.size - 1)[:len(scalePool(0))-1] }

// complete asks for the names that begin with halfName as the user's shell does.
func (l *large) complete(ctx context.Context) error {
	text, took, err := l.run(ctx, "__complete", "bigpipe pool "+l.halfName())
	if err != nil {
		return err
	}
	if want := scalePool(l.size - 1); !bytes.Contains(text, []byte(want)) {
		return fmt.Errorf("completion of %s does not offer %s: %q", l.halfName(), want, text)
	}
	l.panel.add(completionTime, float64(took)/float64(time.Millisecond))
	return nil
}

// tabs presses Tab in the shell, first while it does not know any name and then again.
func (l *large) tabs(ctx context.Context) error {
	t, err := openTerminal(ctx, l.program, l.environment())
	if err != nil {
		return err
	}
	defer t.close()
	const prompt = "bigpipe> "
	for _, name := range []string{firstTabTime, nextTabTime} {
		if err := t.expect(prompt); err != nil {
			return err
		}
		if err := t.typed("pool " + l.halfName()); err != nil {
			return err
		}
		took, err := t.answer("\t", scalePool(l.size-1))
		if err != nil {
			return err
		}
		l.panel.add(name, float64(took)/float64(time.Millisecond))
		if err := t.send("\x03"); err != nil { // the line is dropped
			return err
		}
		if err := t.expect("^C"); err != nil {
			return err
		}
	}
	return nil
}
