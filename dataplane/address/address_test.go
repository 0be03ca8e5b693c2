package address

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"bigpipe/dataplane/namespace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

var (
	four  = netip.MustParseAddr("10.9.0.1")
	six   = netip.MustParseAddr("2001:db8::9")
	quiet = slog.New(slog.DiscardHandler)
)

func expect(t *testing.T, device string, want ...string) {
	t.Helper()
	got := namespace.Addresses(t, device)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s has %v, want %v", device, got, want)
	}
}

func TestWatch(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	namespace.Pair(t, "one", "two")
	w := Watch(quiet)
	defer w.Close()
	if !w.Works() {
		t.Fatal("there is no watch")
	}
	await := func(addr netip.Addr, available bool) {
		t.Helper()
		for end := time.Now().Add(patience); time.Now().Before(end); {
			select {
			case <-w.Wake():
			case <-time.After(patience):
				t.Fatalf("no word of %s", addr)
			}
			if changed, _ := w.Take(); changed == nil {
				continue
			} else if _, ok := changed[addr]; !ok {
				continue
			}
			for Available(addr) != available { // sockets follow a moment later
				time.Sleep(time.Millisecond)
			}
			return
		}
	}
	for addr, prefix := range map[netip.Addr]string{four: "10.9.0.1/24", six: "2001:db8::9/64"} {
		namespace.Give(t, "one", prefix)
		await(addr, true)
		namespace.Take(t, "one", prefix)
		await(addr, false)
	}
}

// An address is added only where the host lacks it, and removed only where it was added.
func TestAssigner(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	namespace.Pair(t, "one", "two")
	namespace.Give(t, "two", "10.9.0.7/24")
	a, err := NewAssigner("one", t.TempDir(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	there, loopback := netip.MustParseAddr("10.9.0.7"), netip.MustParseAddr("127.0.0.5")
	a.Add(four, six, there, loopback, netip.IPv4Unspecified(), netip.MustParseAddr("224.0.0.1"), netip.Addr{})
	expect(t, "one", "10.9.0.1/32", "2001:db8::9/128")
	for _, addr := range []netip.Addr{four, six} {
		if !Available(addr) {
			t.Errorf("%s is not available", addr)
		}
	}
	a.Remove(four, there)
	expect(t, "one", "2001:db8::9/128")
	namespace.Take(t, "one", "2001:db8::9/128")
	a.Repair()
	expect(t, "one", "2001:db8::9/128")
	namespace.Give(t, "one", "10.9.0.1/24") // of somebody else
	a.Add(four)
	a.Close()
	expect(t, "one", "10.9.0.1/24")
	expect(t, "two", "10.9.0.7/24")
}

// After a crash the next process removes what the one before it had added, or takes it over where it is still wanted.
func TestAssignerAfterCrash(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	namespace.Pair(t, "one", "two")
	start := func(dir, device string) *Assigner {
		a, err := NewAssigner(device, dir, quiet)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	crashed := func() string {
		dir := t.TempDir()
		a := start(dir, "one")
		a.Add(four, six)
		a.Leave()
		expect(t, "one", "10.9.0.1/32", "2001:db8::9/128")
		return dir
	}
	t.Run("adopted", func(t *testing.T) {
		a := start(crashed(), "one")
		a.Add(four)
		a.Settle()
		expect(t, "one", "10.9.0.1/32")
		a.Close()
		expect(t, "one")
	})
	t.Run("another_device", func(t *testing.T) {
		a := start(crashed(), "two")
		expect(t, "one")
		a.Close()
	})
	t.Run("no_device", func(t *testing.T) {
		dir := crashed()
		for range 2 {
			if err := Forget(dir); err != nil {
				t.Fatal(err)
			}
			expect(t, "one")
		}
	})
	t.Run("another_boot", func(t *testing.T) {
		dir := crashed()
		data, err := os.ReadFile(filepath.Join(dir, memoryName))
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.Replace(data, []byte(bootID()), []byte("of-yesterday"), 1)
		if err := os.WriteFile(filepath.Join(dir, memoryName), data, 0o600); err != nil {
			t.Fatal(err)
		}
		start(dir, "one").Close()
		expect(t, "one", "10.9.0.1/32", "2001:db8::9/128")
		namespace.Take(t, "one", "10.9.0.1/32")
		namespace.Take(t, "one", "2001:db8::9/128")
	})
	t.Run("somebody_else's_prefix", func(t *testing.T) {
		dir := crashed()
		namespace.Take(t, "one", "10.9.0.1/32")
		namespace.Give(t, "one", "10.9.0.1/24")
		start(dir, "one").Close()
		expect(t, "one", "10.9.0.1/24")
	})
}

// A device that is not there yet stops nothing.
func TestAssignerWithoutDevice(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	dir := t.TempDir()
	a, err := NewAssigner("one", dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	a.Add(four)
	if list, err := a.memory.read(); err != nil || len(list) != 0 {
		t.Errorf("%v is remembered, %v", list, err)
	}
	namespace.Pair(t, "one", "two")
	a.Repair()
	expect(t, "one", "10.9.0.1/32")
	a.Close()
	expect(t, "one")
}

// Neighbours see a gratuitous ARP request and an unsolicited neighbour advertisement.
func TestAnnouncement(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	namespace.Pair(t, "one", "two")
	one, err := net.InterfaceByName("one")
	if err != nil {
		t.Fatal(err)
	}
	two, err := net.InterfaceByName("two")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(bigEndian(unix.ETH_P_ALL)))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: two.Index}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		t.Fatal(err)
	}
	a, err := NewAssigner("one", t.TempDir(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.Add(four, six)

	mac, v4, v6 := one.HardwareAddr, four.As4(), six.As16()
	arp := slices.Concat(broadcast[:], mac, []byte{8, 6}, []byte{0, 1, 8, 0, 6, 4, 0, 1}, mac, v4[:], make([]byte, 6), v4[:])
	all := allNodes.As16()
	var gotARP, gotNA int
	frame := make([]byte, 2048)
	for end := time.Now().Add(patience); time.Now().Before(end) && (gotARP < announcements || gotNA < announcements); {
		n, _, err := unix.Recvfrom(fd, frame, 0)
		if err != nil {
			continue
		}
		f := frame[:n]
		if bytes.HasPrefix(f, arp) {
			gotARP++
		}
		// Ethernet 14, IPv6 40 with the hop limit at 7, source at 8, destination at 24; then ICMPv6.
		if n >= 14+40+32 && f[12] == 0x86 && f[13] == 0xdd && f[20] == unix.IPPROTO_ICMPV6 && f[54] == 136 {
			ip, na := f[14:54], f[54:]
			if !bytes.Equal(ip[8:24], v6[:]) {
				continue
			}
			gotNA++
			if ip[7] != 255 || !bytes.Equal(ip[24:40], all[:]) || na[4] != 0x20 || !bytes.Equal(na[8:24], v6[:]) ||
				!bytes.Equal(na[24:32], append([]byte{2, 1}, mac...)) {
				t.Errorf("advertisement % x", f)
			}
		}
	}
	if gotARP != announcements || gotNA != announcements {
		t.Errorf("%d ARP requests and %d advertisements, want %d of each", gotARP, gotNA, announcements)
	}
}
