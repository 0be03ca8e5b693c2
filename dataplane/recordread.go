package dataplane

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/persist"
)

// moment is one reading of two clocks, in nanoseconds.
type moment struct {
	wall int64 // since 1970; somebody may step it
	boot int64 // since the machine began, sleep included; nobody steps it
}

func readMoment() moment {
	m := moment{wall: time.Now().UnixNano()}
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil {
		m.boot = ts.Nano()
	}
	return m
}

// bootID names the boot of the machine; "" is unknown.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// since is how long ago an earlier moment was: by the clock that nobody steps where the machine has not begun anew since, else
// by the wall clock, which may have been put back: never less than nothing.
func (m moment) since(earlier moment, sameBoot bool) time.Duration {
	if sameBoot {
		return time.Duration(max(m.boot-earlier.boot, 0))
	}
	return time.Duration(max(m.wall-earlier.wall, 0))
}

// errTorn means that the file ends in the middle of an entry: the process was killed while it wrote.
var errTorn = errors.New("it ends in the middle of an entry")

// restoreRecords returns a table with the records of a state directory, as they are now. A file that cannot be used is put
// aside and logged; the table is empty then.
func restoreRecords(dir string, log *slog.Logger) *persist.Table {
	began, path := time.Now(), filepath.Join(dir, recordsName)
	table := persist.New(persist.Options{})
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return table
	}
	if err == nil {
		err = replayRecords(file, table, readMoment(), bootID())
		_ = file.Close()
	}
	if errors.Is(err, errTorn) {
		log.Info("the last persistence records were not written in whole", "path", path, "error", err)
		err = nil
	}
	if err != nil {
		aside := path + ".unusable"
		_ = os.Rename(path, aside)
		log.Error("persistence records cannot be used; members are chosen anew", "path", path, "kept_as", aside, "error", err)
		return persist.New(persist.Options{})
	}
	log.Info("persistence records restored", "records", table.Len(), "took", time.Since(began))
	return table
}

// replayRecords reads a file of records into an empty table. With errTorn everything before the last entry is there, with
// any other error the table is of no use.
func replayRecords(file io.Reader, table *persist.Table, now moment, boot string) error {
	r := bufio.NewReaderSize(file, recordsEntry)
	magic := make([]byte, len(recordsMagic))
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != recordsMagic {
		return errors.New("not persistence records of this version")
	}
	replay := persist.NewReplay(table)
	sameBoot := false
	alive := time.Duration(0) // how long ago the other process lived
	for offset := int64(len(magic)); ; {
		kind, payload, err := readFrame(r, recordsMost)
		switch {
		case errors.Is(err, io.EOF):
			replay.End(alive)
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errChecksum) && onlyZeros(r):
			replay.End(alive)
			return fmt.Errorf("byte %d: %w", offset, errTorn)
		case err == nil && kind == entryBoot:
			sameBoot = boot != "" && string(payload) == boot
		case err == nil && kind == entryRecords && len(payload) >= 16:
			at := moment{wall: int64(binary.BigEndian.Uint64(payload)), boot: int64(binary.BigEndian.Uint64(payload[8:]))}
			alive = now.since(at, sameBoot)
			err = replay.Apply(payload[16:], alive)
		case err == nil:
			err = fmt.Errorf("an entry of kind %q with %d bytes", kind, len(payload))
		}
		if err != nil {
			return fmt.Errorf("byte %d: %w", offset, err)
		}
		offset += journalHeader + int64(len(payload))
	}
}

// onlyZeros reports whether nothing else follows: a machine that stopped may leave a file longer than what was written.
func onlyZeros(r *bufio.Reader) bool {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if b != 0 {
			return false
		}
	}
}
