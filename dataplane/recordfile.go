package dataplane

import (
	"encoding/binary"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sync"
	"time"

	"bigpipe/dataplane/persist"
)

// The records are kept in a file beside the journal, so that another process begins with them after this one was killed. It
// begins with a line of text; entries as in the journal follow:
//
//	'b' · what names the boot of the machine
//	'r' · wall clock (8) · time since the boot (8) · what persist.Table lists, in this moment
//
// Times are in nanoseconds. Changes are appended a few times a second. When the file has become too long, another one is begun
// that holds all records; until it is complete changes are written to both, and then it takes the place of the first.
const (
	recordsName  = "records"
	recordsMagic = "bigpipe dataplane records 1\n"
	// recordsInterval is how often changes are written, so that no more than this is lost when the process is killed.
	recordsInterval = 250 * time.Millisecond
	// recordsAlive is how often it is noted that the process lives, if nothing else is.
	recordsAlive = time.Second
	// recordsSync is how often the file is put on the disk, for when the machine stops.
	recordsSync = 5 * time.Second
	// recordsSlack and recordsShare bound the file: a share for each record, and a slack.
	recordsSlack = 4 << 20
	recordsShare = 256
	// recordsBudget is how long the other file is written at once.
	recordsBudget = 20 * time.Millisecond
	recordsEntry  = 64 << 10 // begun with less than that, an entry is written
	recordsMost   = 1 << 20  // a longer entry is damage
)

const (
	entryBoot    = 'b'
	entryRecords = 'r'
)

// recordFile keeps the records of a table in a file. Its methods may be called from any goroutine.
type recordFile struct {
	path  string
	table *persist.Table
	log   *slog.Logger
	clock func() moment
	sync  sync.WaitGroup // of what waits for the disk

	mu      sync.Mutex // guards all below
	ended   bool
	begun   bool     // changes were written, or lost in a failure: what is not changed is no more known to be new
	current *os.File // nil: none is complete
	size    int64    // of current
	next    *os.File // nil: none is begun
	copied  bool     // next is complete, and about to take the place of current
	at      persist.Cursor
	buf     []byte
	written time.Time // the last entry
	synced  time.Time
	dirty   bool          // current has changes that are not on the disk
	pause   time.Duration // zero: the last attempt succeeded
	retryAt time.Time
}

func newRecordFile(dir string, table *persist.Table, log *slog.Logger) *recordFile {
	return &recordFile{path: filepath.Join(dir, recordsName), table: table, log: log, clock: readMoment, synced: time.Now()}
}

// keep writes changes until stop is closed.
func (f *recordFile) keep(stop <-chan struct{}) {
	ticker := time.NewTicker(recordsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			f.flush(recordsBudget)
		}
	}
}

// begin writes all records before it returns.
func (f *recordFile) begin() {
	for complete := false; !complete; {
		f.flush(time.Hour)
		f.mu.Lock()
		complete = f.current != nil || f.pause > 0 || f.ended
		f.mu.Unlock()
	}
}

// flush writes what has changed, and goes on with the other file, if there is one, for so long. A failure is logged once; from
// then on it is tried again from the beginning.
func (f *recordFile) flush(budget time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.ended || now.Before(f.retryAt) {
		return
	}
	if err := f.step(now, budget); err != nil {
		f.cannotKeep(err)
	}
}

func (f *recordFile) step(now time.Time, budget time.Duration) error {
	if f.next == nil && (f.current == nil || f.size > recordsSlack+recordsShare*int64(f.table.Len())) {
		if err := f.open(); err != nil {
			return err
		}
	}
	whole := !f.begun // every record is new
	f.begun = true
	if err := f.writeChanges(now); err != nil {
		return err
	}
	if whole {
		return f.replace(f.next)
	}
	if f.next != nil && !f.copied {
		return f.copy(now.Add(budget))
	}
	if f.dirty && f.next == nil && now.Sub(f.synced) >= recordsSync {
		f.dirty, f.synced = false, now
		file := f.current
		f.sync.Go(func() {
			if err := file.Sync(); err != nil {
				f.cannotSync(file, err)
			}
		})
	}
	return nil
}

// open begins another file.
func (f *recordFile) open() error {
	file, err := os.OpenFile(f.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	f.next, f.copied, f.at = file, false, persist.Cursor{}
	if _, err := file.WriteString(recordsMagic); err != nil {
		return err
	}
	boot := append(make([]byte, journalHeader), bootID()...)
	seal(boot, entryBoot)
	_, err = file.Write(boot)
	return err
}

// writeChanges appends what has changed, to both files.
func (f *recordFile) writeChanges(now time.Time) error {
	var at persist.Cursor
	for more := true; more; {
		entry := f.entry()
		head := len(entry)
		for more && len(entry) < recordsEntry {
			entry, more = f.table.AppendChanges(entry, &at)
			goruntime.Gosched()
		}
		f.buf = entry
		if len(entry) == head && now.Sub(f.written) < recordsAlive {
			continue
		}
		f.written, f.dirty = now, f.dirty || len(entry) > head
		seal(entry, entryRecords)
		for _, file := range []*os.File{f.current, f.next} {
			if file == nil {
				continue
			}
			if _, err := file.Write(entry); err != nil {
				return err
			}
		}
		f.size += int64(len(entry))
	}
	return nil
}

// entry is the beginning of one.
func (f *recordFile) entry() []byte {
	m := f.clock()
	entry := append(f.buf[:0], make([]byte, journalHeader)...)
	entry = binary.BigEndian.AppendUint64(entry, uint64(m.wall))
	return binary.BigEndian.AppendUint64(entry, uint64(m.boot))
}

// copy goes on with the other file until it holds all records.
func (f *recordFile) copy(end time.Time) error {
	for more := true; more; {
		if time.Now().After(end) {
			return nil
		}
		entry := f.entry()
		for more && len(entry) < recordsEntry {
			entry, more = f.table.AppendAll(entry, &f.at)
			goruntime.Gosched()
		}
		f.buf = entry
		seal(entry, entryRecords)
		if _, err := f.next.Write(entry); err != nil {
			return err
		}
	}
	f.copied = true
	file := f.next
	if f.current == nil { // what is there is older in any case
		return f.replace(file)
	}
	f.sync.Go(func() {
		err := file.Sync()
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.next != file || f.ended {
			return
		}
		if err == nil {
			err = f.replace(file)
		}
		if err != nil {
			f.cannotKeep(err)
		}
	})
	return nil
}

// replace lets the other file take the place of the current one. The caller holds the lock.
func (f *recordFile) replace(file *os.File) error {
	if err := os.Rename(file.Name(), f.path); err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if f.current != nil {
		_ = f.current.Close()
	}
	f.current, f.next, f.size, f.dirty = file, nil, size, true
	if f.pause > 0 {
		f.log.Info("persistence records are kept again", "path", f.path)
	}
	f.pause, f.retryAt = 0, time.Time{}
	return nil
}

func (f *recordFile) cannotSync(file *os.File, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == file && !f.ended {
		f.cannotKeep(err)
	}
}

// cannotKeep gives the files up. The caller holds the lock.
func (f *recordFile) cannotKeep(err error) {
	f.close()
	if f.pause == 0 {
		f.log.Error("cannot keep persistence records; they are in effect, and keeping them is tried again", "path", f.path, "error", err)
	}
	f.pause = min(max(2*f.pause, shortestDiskPause), longestDiskPause)
	f.retryAt = time.Now().Add(f.pause)
}

func (f *recordFile) close() {
	for _, file := range []*os.File{f.current, f.next} {
		if file != nil {
			_ = file.Close()
		}
	}
	f.current, f.next = nil, nil
}

// end writes what has changed and leaves the file to another process.
func (f *recordFile) end() {
	f.flush(0)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.close()
}

// resume goes on after end.
func (f *recordFile) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = false
}
