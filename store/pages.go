package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
)

// The pages of a bbolt file, version 2. The library follows offsets of a mapped file without a check, so that a damaged
// page would end the process; checkPages reads the same pages with checks before the library sees them.
const (
	boltMagic      = 0xED0CDAED
	boltVersion    = 2
	pageHeader     = 16
	elementSize    = 16
	bucketHeader   = 16
	metaSize       = 64
	noFreelist     = ^uint64(0)
	maxPageSize    = 64 << 10
	maxPageDepth   = 64
	branchFlag     = 0x01
	leafFlag       = 0x02
	bucketLeafFlag = 0x01
)

// pageChecker walks all pages that can be reached from the newest meta page.
type pageChecker struct {
	r        io.ReaderAt
	pageSize int64
	// end is the first page number that was never used.
	end uint64
	// owner[id] is true for a page that was reached.
	owner map[uint64]bool
}

// boltMeta is what a meta page says.
type boltMeta struct {
	root     uint64
	freelist uint64
	end      uint64
	txid     uint64
}

// checkPages reads every page of a file of the given size. An error names the page and what is wrong with it.
func checkPages(r io.ReaderAt, size int64) error {
	meta0, pageSize, err := readMeta(r, 0)
	if err != nil {
		return fmt.Errorf("page 0: %w", err)
	}
	meta1, otherSize, err := readMeta(r, pageSize)
	if err != nil {
		return fmt.Errorf("page 1: %w", err)
	}
	if otherSize != pageSize {
		return fmt.Errorf("page 1: page size %d, on page 0 it is %d", otherSize, pageSize)
	}
	if meta0.txid != meta1.txid+1 && meta1.txid != meta0.txid+1 {
		return fmt.Errorf("pages 0 and 1: transactions %d and %d do not follow each other", meta0.txid, meta1.txid)
	}
	meta := meta0
	if meta1.txid > meta0.txid {
		meta = meta1
	}
	if meta.end > uint64(size)/uint64(pageSize) {
		return fmt.Errorf("cut short: %d bytes, %d pages of %d were written", size, meta.end, pageSize)
	}
	if meta.freelist != noFreelist {
		return fmt.Errorf("page %d: unexpected list of free pages", meta.freelist)
	}
	c := &pageChecker{r: r, pageSize: pageSize, end: meta.end, owner: map[uint64]bool{}}
	return c.tree(meta.root, true, nil, nil, 0)
}

// readMeta reads the meta page at an offset and returns it with the page size that it names.
func readMeta(r io.ReaderAt, offset int64) (boltMeta, int64, error) {
	buf := make([]byte, pageHeader+metaSize)
	if _, err := r.ReadAt(buf, offset); err != nil {
		return boltMeta{}, 0, fmt.Errorf("cannot be read: %w", err)
	}
	m, order := buf[pageHeader:], binary.NativeEndian
	sum := fnv.New64a()
	sum.Write(m[:56])
	switch {
	case order.Uint32(m) != boltMagic:
		return boltMeta{}, 0, fmt.Errorf("not the start of a store")
	case order.Uint64(m[56:]) != sum.Sum64():
		return boltMeta{}, 0, fmt.Errorf("wrong checksum")
	case order.Uint32(m[4:]) != boltVersion:
		return boltMeta{}, 0, fmt.Errorf("file version %d, not %d", order.Uint32(m[4:]), boltVersion)
	}
	size := int64(order.Uint32(m[8:]))
	if size < 512 || size > maxPageSize || size&(size-1) != 0 {
		return boltMeta{}, 0, fmt.Errorf("page size %d", size)
	}
	return boltMeta{
		root: order.Uint64(m[16:]), freelist: order.Uint64(m[32:]), end: order.Uint64(m[40:]), txid: order.Uint64(m[48:]),
	}, size, nil
}

// page reads one page with the pages that it goes on in, and marks them as reached.
func (c *pageChecker) page(id uint64) ([]byte, error) {
	if id < 2 || id >= c.end {
		return nil, fmt.Errorf("page %d: does not exist", id)
	}
	head := make([]byte, pageHeader)
	if _, err := c.r.ReadAt(head, int64(id)*c.pageSize); err != nil {
		return nil, fmt.Errorf("page %d: cannot be read: %w", id, err)
	}
	order := binary.NativeEndian
	if got := order.Uint64(head); got != id {
		return nil, fmt.Errorf("page %d: carries the number %d", id, got)
	}
	more := uint64(order.Uint32(head[12:]))
	if more >= c.end-id {
		return nil, fmt.Errorf("page %d: goes on past the end of the file", id)
	}
	for n := id; n <= id+more; n++ {
		if c.owner[n] {
			return nil, fmt.Errorf("page %d: is referred to twice", n)
		}
		c.owner[n] = true
	}
	buf := make([]byte, int64(more+1)*c.pageSize)
	if _, err := c.r.ReadAt(buf, int64(id)*c.pageSize); err != nil {
		return nil, fmt.Errorf("page %d: cannot be read: %w", id, err)
	}
	return buf, nil
}

// tree checks the pages below id. Keys must be at least low and less than high, where those are not nil. Buckets may be
// entries of the root only.
func (c *pageChecker) tree(id uint64, root bool, low, high []byte, depth int) error {
	if depth > maxPageDepth {
		return fmt.Errorf("page %d: nested too deeply", id)
	}
	buf, err := c.page(id)
	if err != nil {
		return err
	}
	flags, count := binary.NativeEndian.Uint16(buf[8:]), int(binary.NativeEndian.Uint16(buf[10:]))
	switch flags {
	case leafFlag:
		if count == 0 && depth > 0 {
			return fmt.Errorf("page %d: is empty", id)
		}
		return c.leaf(id, buf, root, low, high)
	case branchFlag:
		return c.branch(id, buf, root, low, high, depth)
	}
	return fmt.Errorf("page %d: unknown kind %#x", id, flags)
}

// branch checks a page of references to pages and everything below it.
func (c *pageChecker) branch(id uint64, buf []byte, root bool, low, high []byte, depth int) error {
	order := binary.NativeEndian
	count := int(order.Uint16(buf[10:]))
	if count == 0 {
		return fmt.Errorf("page %d: is empty", id)
	}
	keys, children := make([][]byte, count), make([]uint64, count)
	for i := range count {
		at := pageHeader + i*elementSize
		if at+elementSize > len(buf) {
			return fmt.Errorf("page %d: entry %d lies outside", id, i)
		}
		key, err := slice(buf, at, order.Uint32(buf[at:]), order.Uint32(buf[at+4:]))
		if err != nil {
			return fmt.Errorf("page %d: entry %d: %w", id, i, err)
		}
		keys[i], children[i] = key, order.Uint64(buf[at+8:])
	}
	if err := ordered(keys, low, high); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	for i, child := range children {
		next := high
		if i+1 < count {
			next = keys[i+1]
		}
		if err := c.tree(child, root, keys[i], next, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// leaf checks a page of keys and values; in the root the values are buckets, which are checked too.
func (c *pageChecker) leaf(id uint64, buf []byte, root bool, low, high []byte) error {
	order := binary.NativeEndian
	count := int(order.Uint16(buf[10:]))
	keys := make([][]byte, count)
	for i := range count {
		at := pageHeader + i*elementSize
		if at+elementSize > len(buf) {
			return fmt.Errorf("page %d: entry %d lies outside", id, i)
		}
		flags, pos, ksize, vsize := order.Uint32(buf[at:]), order.Uint32(buf[at+4:]), order.Uint32(buf[at+8:]), order.Uint32(buf[at+12:])
		key, err := slice(buf, at, pos, ksize)
		if err != nil {
			return fmt.Errorf("page %d: entry %d: %w", id, i, err)
		}
		value, err := slice(buf, at+int(ksize), pos, vsize)
		if err != nil {
			return fmt.Errorf("page %d: entry %d: %w", id, i, err)
		}
		keys[i] = key
		if want := rootFlag(root); flags != want {
			return fmt.Errorf("page %d: entry %q: kind %d, not %d", id, key, flags, want)
		}
		if root {
			if err := c.bucket(value); err != nil {
				return fmt.Errorf("page %d: bucket %q: %w", id, key, err)
			}
		}
	}
	if err := ordered(keys, low, high); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// rootFlag is the kind that an entry must have.
func rootFlag(root bool) uint32 {
	if root {
		return bucketLeafFlag
	}
	return 0
}

// bucket checks the entries of a bucket, which stand on pages of their own or within the value.
func (c *pageChecker) bucket(value []byte) error {
	if len(value) < bucketHeader {
		return fmt.Errorf("%d bytes are too few", len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return c.tree(root, false, nil, nil, 0)
	}
	inline := value[bucketHeader:]
	if len(inline) < pageHeader {
		return fmt.Errorf("%d bytes are too few", len(value))
	}
	if flags := binary.NativeEndian.Uint16(inline[8:]); flags != leafFlag {
		return fmt.Errorf("unknown kind %#x", flags)
	}
	return c.leaf(0, inline, false, nil, nil)
}

// slice returns size bytes that begin pos after base, if they lie within buf.
func slice(buf []byte, base int, pos, size uint32) ([]byte, error) {
	from := int64(base) + int64(pos)
	if to := from + int64(size); to <= int64(len(buf)) {
		return buf[from:to], nil
	}
	return nil, fmt.Errorf("lies outside of its page")
}

// ordered tells whether keys rise strictly from low (inclusive) to high (exclusive).
func ordered(keys [][]byte, low, high []byte) error {
	for i, key := range keys {
		if len(key) == 0 {
			return fmt.Errorf("entry %d has no key", i)
		}
		if i == 0 && low != nil && bytes.Compare(key, low) < 0 || i > 0 && bytes.Compare(keys[i-1], key) >= 0 {
			return fmt.Errorf("key %q is not in order", key)
		}
		if high != nil && bytes.Compare(key, high) >= 0 {
			return fmt.Errorf("key %q is not in order", key)
		}
	}
	return nil
}
