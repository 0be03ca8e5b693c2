package dataplane

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// The journal is a file that holds what was applied: a whole configuration, then the deltas after it. It begins with a
// line of text. Each entry is
//
//	length of the payload, 4 bytes · CRC-32C of kind and payload, 4 bytes · kind, 1 byte · payload
//
// with big-endian numbers; the payload is an ApplyRequest. A whole configuration is written to a file of its own that
// then takes the place of the old one, so that it is there entirely or not at all.
const (
	journalName   = "applied"
	journalMagic  = "bigpipe dataplane journal 1\n"
	journalHeader = 9
	// journalPiece is how many objects an entry of a whole configuration holds.
	journalPiece = 500
	// journalMaxEntry bounds what a damaged length can make us read.
	journalMaxEntry = 1 << 30
	// journalSlack is how many bytes of deltas may follow before the file is written anew, if the whole
	// configuration is not larger than that itself.
	journalSlack = 1 << 20
)

const (
	lockPatience = 2 * time.Second
	lockInterval = 50 * time.Millisecond
)

const (
	entryPart  = 'p' // of a whole configuration; more follows
	entryWhole = 'w' // its last part
	entryDelta = 'd'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged wraps what is wrong with a journal that can be read in part.
var errDamaged = errors.New("the journal is damaged")

// journal is owned by the engine, whose lock guards it.
type journal struct {
	path  string
	lock  *os.File // the directory; locked while it is open
	file  *os.File // nil before the first whole configuration
	whole int64    // bytes of the whole configuration
	size  int64
	dirty bool // written to and not yet flushed
}

// errLocked means that another process keeps its state in the directory.
var errLocked = errors.New("another dataplane uses it")

// lockDir opens a directory and locks it until it is closed. One that ends may still have it: it is waited for.
func lockDir(dir string, patience time.Duration) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(patience); ; time.Sleep(lockInterval) {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return d, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(end):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			err = errLocked
		}
		_ = d.Close()
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
}

// openJournal reads the journal of a directory, which is created if it is not there, and locked. It returns the
// configuration and what its last entry said of itself; nil when there is none. An error that is errDamaged comes with what
// could be read: everything before the damage.
func openJournal(dir string) (*journal, *config.Tree, *pb.ApplyHeader, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, nil, err
	}
	lock, err := lockDir(dir, lockPatience)
	if err != nil {
		return nil, nil, nil, err
	}
	removeParts(dir)
	j := &journal{path: filepath.Join(dir, journalName), lock: lock}
	f, err := os.OpenFile(j.path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return j, nil, nil, nil
	}
	if err != nil {
		j.close()
		return nil, nil, nil, err
	}
	tree, header, err := j.read(f)
	if err == nil {
		j.file = f
		return j, tree, header, nil
	}
	_ = f.Close()
	return j, tree, header, fmt.Errorf("%s: %w", j.path, err)
}

// partPrefix begins the names of journals that are being written.
const partPrefix = "." + journalName

// removeParts removes what processes have left that were killed while they wrote the journal anew. It may be large, and nobody else
// would ever remove it; what cannot be removed does no other harm.
func removeParts(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), partPrefix) {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
}

// read returns the configuration after the last entry that is whole. A file's offset is then behind it.
func (j *journal) read(text io.Reader) (*config.Tree, *pb.ApplyHeader, error) {
	r := bufio.NewReaderSize(text, 1<<16)
	magic := make([]byte, len(journalMagic))
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != journalMagic {
		return nil, nil, fmt.Errorf("%w at byte 0: not a journal of this version", errDamaged)
	}
	j.size = int64(len(magic))
	tree := config.NewOverlay(nil)
	var header *pb.ApplyHeader
	complete := false
	for {
		kind, request, size, err := readEntry(r)
		if errors.Is(err, io.EOF) && complete {
			return tree.Tree(), header, nil
		}
		if err == nil && complete != (kind == entryDelta) {
			err = fmt.Errorf("an entry of kind %q is out of place", kind)
		}
		if err != nil {
			return tree.Tree(), header, fmt.Errorf("%w at byte %d: %w", errDamaged, j.size, err)
		}
		for _, o := range request.GetChanged() {
			tree.Put(o)
		}
		for _, key := range request.GetDeleted() {
			tree.Delete(key)
		}
		header = request.GetHeader()
		j.size += size
		if kind == entryWhole {
			complete, j.whole = true, j.size
		}
	}
}

// readEntry returns io.EOF only where an entry could begin.
func readEntry(r io.Reader) (kind byte, request *pb.ApplyRequest, size int64, err error) {
	kind, payload, err := readFrame(r, journalMaxEntry)
	if err != nil {
		return 0, nil, 0, err
	}
	request = &pb.ApplyRequest{}
	if err := proto.Unmarshal(payload, request); err != nil {
		return 0, nil, 0, err
	}
	return kind, request, journalHeader + int64(len(payload)), nil
}

var errChecksum = errors.New("wrong checksum")

// readFrame reads an entry of most bytes at most. It returns io.EOF only where an entry could begin, and
// io.ErrUnexpectedEOF where the text ends in one.
func readFrame(r io.Reader, most uint32) (kind byte, payload []byte, err error) {
	var head [journalHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > most {
		return 0, nil, fmt.Errorf("an entry of %d bytes", length)
	}
	if payload, err = io.ReadAll(io.LimitReader(r, int64(length))); err != nil {
		return 0, nil, err
	}
	if len(payload) < int(length) {
		return 0, nil, io.ErrUnexpectedEOF
	}
	if checksum(head[8], payload) != binary.BigEndian.Uint32(head[4:]) {
		return 0, nil, errChecksum
	}
	return head[8], payload, nil
}

// seal fills in the head of an entry, which is the first journalHeader bytes.
func seal(entry []byte, kind byte) {
	payload := entry[journalHeader:]
	binary.BigEndian.PutUint32(entry, uint32(len(payload)))
	binary.BigEndian.PutUint32(entry[4:], checksum(kind, payload))
	entry[8] = kind
}

func checksum(kind byte, payload []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, []byte{kind}), castagnoli, payload)
}

func writeEntry(w io.Writer, kind byte, request *pb.ApplyRequest) (int64, error) {
	entry, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, journalHeader, 1<<10), request)
	if err != nil {
		return 0, err
	}
	if length := len(entry) - journalHeader; length > journalMaxEntry {
		return 0, fmt.Errorf("an entry of %d bytes", length)
	}
	seal(entry, kind)
	n, err := w.Write(entry)
	return int64(n), err
}

// add appends a delta. It tells when the file should rather be written anew: there is none yet, or it has grown.
func (j *journal) add(header *pb.ApplyHeader, changes []config.Change) (again bool, err error) {
	if j.file == nil || j.size-j.whole > max(journalSlack, j.whole) {
		return true, nil
	}
	request := &pb.ApplyRequest{Header: header}
	for _, c := range changes {
		if c.New == nil {
			request.Deleted = append(request.Deleted, c.Key)
		} else {
			request.Changed = append(request.Changed, c.New)
		}
	}
	n, err := writeEntry(j.file, entryDelta, request)
	if err != nil {
		_ = j.file.Truncate(j.size) // half an entry would be damage
		j.closeFile()
		return true, err
	}
	j.size += n
	j.dirty = true
	return false, nil
}

// rewrite replaces the file by one that holds the whole configuration. It is on the disk when rewrite returns.
func (j *journal) rewrite(header *pb.ApplyHeader, tree *config.Tree) error {
	j.closeFile()
	f, err := renameio.NewPendingFile(j.path, renameio.WithPermissions(0o600), renameio.WithTempDir(filepath.Dir(j.path)))
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }() // does nothing once it has replaced the other
	size, err := writeWhole(f, header, tree)
	if err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return err
	}
	if j.file, err = os.OpenFile(j.path, os.O_RDWR, 0); err != nil {
		return err
	}
	_, err = j.file.Seek(size, io.SeekStart)
	j.whole, j.size, j.dirty = size, size, false
	return err
}

func writeWhole(f io.Writer, header *pb.ApplyHeader, tree *config.Tree) (size int64, err error) {
	w := bufio.NewWriterSize(f, 1<<16)
	if _, err := w.WriteString(journalMagic); err != nil {
		return 0, err
	}
	size = int64(len(journalMagic))
	request := &pb.ApplyRequest{Header: header}
	write := func(kind byte) {
		var n int64
		if err == nil {
			n, err = writeEntry(w, kind, request)
		}
		size += n
		request.Changed = request.Changed[:0]
	}
	tree.Range("", func(o *pb.Object) bool {
		if len(request.Changed) == journalPiece {
			write(entryPart)
		}
		request.Changed = append(request.Changed, o)
		return err == nil
	})
	write(entryWhole)
	if err == nil {
		err = w.Flush()
	}
	return size, err
}

// unflushed returns the file if it must be flushed, nil if not. What is added from now on needs another flush.
func (j *journal) unflushed() *os.File {
	if j.file == nil || !j.dirty {
		return nil
	}
	j.dirty = false
	return j.file
}

func (j *journal) closeFile() {
	if j.file != nil {
		_ = j.file.Close()
		j.file = nil
	}
}

// close gives the directory up to others.
func (j *journal) close() {
	j.closeFile()
	_ = j.lock.Close()
}
