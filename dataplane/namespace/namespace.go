// Package namespace gives tests a network namespace of their own, in which they may do as they like.
package namespace

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// inside names the test that runs in a namespace.
const inside = "BIGPIPE_TEST_NAMESPACE"

// Enter runs the calling test again in a process in a new network namespace, where only loopback is there, and up. It returns
// true there; false when that process has ended, and the caller returns. It is for the first line of a test.
//
//	if !namespace.Enter(t) {
//		return
//	}
func Enter(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) == t.Name() {
		setUp(t)
		return true
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), inside+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid := os.Getuid(); uid != 0 { // a user may own a namespace in which he is root
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL) {
		if os.Getenv("BIGPIPE_NO_SKIP") != "" {
			t.Fatalf("no network namespace: %v", err)
		}
		who, _ := user.Current()
		t.Skipf("%s may make no network namespace (root may): %v", who.Username, err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in its namespace: %v\n%s", err, out)
	}
	return false
}

func setUp(t *testing.T) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Pair makes two Ethernet devices that are joined, and sets them up.
func Pair(t *testing.T, one, two string) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = one
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: two}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{one, two} {
		link, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Give gives a device an address with a prefix, such as 10.0.0.1/24.
func Give(t *testing.T, device, prefix string) { change(t, device, prefix, netlink.AddrAdd) }

// Take takes it away again.
func Take(t *testing.T, device, prefix string) { change(t, device, prefix, netlink.AddrDel) }

func change(t *testing.T, device, prefix string, do func(netlink.Link, *netlink.Addr) error) {
	t.Helper()
	link, err := netlink.LinkByName(device)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := netlink.ParseAddr(prefix)
	if err != nil {
		t.Fatal(err)
	}
	if addr.IP.To4() == nil {
		addr.Flags = syscall.IFA_F_NODAD
	}
	if err := do(link, addr); err != nil {
		t.Fatalf("%s at %s: %v", prefix, device, err)
	}
}

// Route sends everything for which there is no other route through a device to a gateway, such as 10.0.0.9.
func Route(t *testing.T, device, gateway string) {
	t.Helper()
	if err := route(device, gateway); err != nil {
		t.Fatal(err)
	}
}

func route(device, gateway string) error {
	link, err := netlink.LinkByName(device)
	if err == nil {
		err = netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(gateway)})
	}
	return err
}

// Limit lets a device send so many bytes a second.
func Limit(t *testing.T, device string, rate uint64) {
	t.Helper()
	const burst, queue = 32 << 10, 128 << 10 // bytes
	link, err := netlink.LinkByName(device)
	if err == nil {
		err = netlink.QdiscReplace(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate:       rate, Limit: queue, Buffer: netlink.Xmittime(rate, burst),
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Addresses returns the addresses of a device with their prefixes, without link-local ones.
func Addresses(t *testing.T, device string) []string {
	t.Helper()
	link, err := netlink.LinkByName(device)
	if err != nil {
		t.Fatal(err)
	}
	list, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, a := range list {
		if !a.IP.IsLinkLocalUnicast() {
			found = append(found, a.IPNet.String())
		}
	}
	return found
}

// Host is another network namespace: what Do calls opens its sockets there. It ends with the test.
type Host struct {
	calls  chan func()
	thread int
}

// NewHost makes a host with one device of a pair that Pair has made, and gives it that device with addresses and a gateway for
// each family of them. It starts with loopback up.
func NewHost(t *testing.T, device string, gateways []string, prefixes ...string) *Host {
	t.Helper()
	h := &Host{calls: make(chan func())}
	started := make(chan error)
	var ended sync.WaitGroup
	ended.Go(func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine, and the namespace with it
		h.thread = syscall.Gettid()
		started <- syscall.Unshare(syscall.CLONE_NEWNET)
		for call := range h.calls {
			call()
		}
	})
	t.Cleanup(func() {
		close(h.calls)
		ended.Wait()
	})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	h.Move(t, device, prefixes...)
	h.Do(func() {
		setUp(t)
		for _, g := range gateways {
			if err := route(device, g); err != nil {
				t.Error(err)
			}
		}
	})
	return h
}

// Move gives the host another device of a pair that Pair has made, with addresses. It is up there.
func (h *Host) Move(t *testing.T, device string, prefixes ...string) netlink.Link {
	t.Helper()
	link, err := netlink.LinkByName(device)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetNsPid(link, h.thread); err != nil {
		t.Fatal(err)
	}
	h.Do(func() {
		if err := netlink.LinkSetUp(link); err != nil {
			t.Error(err)
			return
		}
		for _, p := range prefixes {
			Give(t, device, p)
		}
	})
	return link
}

// Neighbour makes a host that is joined to the test's namespace. v4 and v6 are the networks between them, without the host's part,
// such as "10.2.1." and "fd02:1::": the test's namespace is 1 there and the host's gateway, the host is 9. The device at the host
// has the host's name, the other end that and a "0".
func Neighbour(t *testing.T, name, v4, v6 string) *Host {
	t.Helper()
	end := name + "0"
	Pair(t, name, end)
	Give(t, end, v4+"1/24")
	Give(t, end, v6+"1/64")
	return NewHost(t, name, []string{v4 + "1", v6 + "1"}, v4+"9/24", v6+"9/64")
}

// Do calls fn at the host, and waits. Goroutines that fn starts are not there; programs that it starts itself are.
func (h *Host) Do(fn func()) {
	done := make(chan struct{})
	h.calls <- func() {
		defer close(done)
		fn()
	}
	<-done
}

// Start starts a program at the host. It is killed with the test, which fails if it cannot be started.
func (h *Host) Start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var err error
	h.Do(func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
	})
}
