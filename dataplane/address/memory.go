package address

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
)

// memory is a file that says which addresses were added to which devices. It is written before an address is added, so after
// a crash no address is forgotten. The first line names the boot of the machine that it is about: what was added is gone with
// the next one.
type memory struct{ path string }

const (
	memoryName = "assigned"
	bootFile   = "/proc/sys/kernel/random/boot_id"
)

// assignment is an address at a device.
type assignment struct {
	device string
	addr   netip.Addr
}

func bootID() string {
	id, err := os.ReadFile(bootFile)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

func memoryIn(dir string) *memory { return &memory{filepath.Join(dir, memoryName)} }

// read returns what was added since the machine started. Lines that make no sense are passed over.
func (m *memory) read() ([]assignment, error) {
	data, err := os.ReadFile(m.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	if !lines.Scan() || lines.Text() != "boot "+bootID() {
		return nil, nil
	}
	var list []assignment
	for lines.Scan() {
		device, text, _ := strings.Cut(lines.Text(), " ")
		if addr, err := netip.ParseAddr(text); err == nil && device != "" {
			list = append(list, assignment{device, addr})
		}
	}
	return list, lines.Err()
}

// write replaces the file.
func (m *memory) write(list []assignment) error {
	slices.SortFunc(list, func(a, b assignment) int { return a.addr.Compare(b.addr) })
	var b bytes.Buffer
	fmt.Fprintf(&b, "boot %s\n", bootID())
	for _, a := range list {
		fmt.Fprintf(&b, "%s %s\n", a.device, a.addr)
	}
	return renameio.WriteFile(m.path, b.Bytes(), 0o600)
}
