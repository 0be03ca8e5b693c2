package persist

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// Mirror hands what a table holds to another place: a standby, a bucket of keys and values. A Publisher calls it.
type Mirror interface {
	// Publish hands a batch on and returns when the other side has it. ErrBehind asks for all records again; after any
	// other error, or an end of the context, what the batch was about comes again.
	Publish(ctx context.Context, b *Batch) error
}

// ErrBehind means that the other side lacks what came before a batch.
var ErrBehind = errors.New("the mirror lacks what came before")

// Batch is what a table says of some of its places, each once.
type Batch struct {
	// Epoch is that of one telling of all records; changes follow under the same one.
	Epoch uint64
	// First is set in the first batch of an epoch. Whole is set in that with which all records are told: places of which
	// nothing was said hold none.
	First, Whole bool
	Entries      []Entry
}

// Entry says what a place holds now. Places are numbers that mean something within an epoch only.
type Entry struct {
	Place  uint32
	Record Record // of the zero Key: there is none
}

// The binary form of a batch: version (1) · flags (1) · epoch (8) · number of entries (2) · of each its place (4), the length of
// its record (1; 0: there is none) and the record in its binary form. Numbers are big-endian.
const (
	mirrorVersion  = 1
	mirrorFirst    = 1
	mirrorWhole    = 2
	mirrorMost     = 1024 // entries of one batch
	mirrorPlaces   = shardCount << slotBits
	mirrorHead     = 12
	mirrorEntry    = 5
	mirrorMostSize = mirrorHead + mirrorMost*(mirrorEntry+255)
)

// AppendBinary implements encoding.BinaryAppender.
func (m *Batch) AppendBinary(b []byte) ([]byte, error) {
	if len(m.Entries) > mirrorMost {
		return b, fmt.Errorf("mirror: %d entries are more than %d", len(m.Entries), mirrorMost)
	}
	flags := byte(0)
	if m.First {
		flags |= mirrorFirst
	}
	if m.Whole {
		flags |= mirrorWhole
	}
	b = binary.BigEndian.AppendUint64(append(b, mirrorVersion, flags), m.Epoch)
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.Entries)))
	for i := range m.Entries {
		e := &m.Entries[i]
		b = append(binary.BigEndian.AppendUint32(b, e.Place), 0)
		if e.Record.Key.IsZero() {
			continue
		}
		head := len(b)
		b, _ = e.Record.AppendBinary(b)
		b[head-1] = byte(len(b) - head)
	}
	return b, nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler. What no Publisher sends is refused, and then nothing is changed.
func (m *Batch) UnmarshalBinary(b []byte) error {
	if len(b) > mirrorMostSize {
		return fmt.Errorf("mirror: a batch of %d bytes is too long", len(b))
	}
	in := binaryReader{rest: b}
	version, flags := in.byte(), in.byte()
	next := Batch{Epoch: in.number(8), First: flags&mirrorFirst != 0, Whole: flags&mirrorWhole != 0}
	count := int(in.number(2))
	switch {
	case in.short:
		return errors.New("mirror: a batch is cut off")
	case version != mirrorVersion:
		return fmt.Errorf("mirror: version %d is not known", version)
	case flags&^(mirrorFirst|mirrorWhole) != 0 || count > mirrorMost:
		return errors.New("mirror: a batch makes no sense")
	}
	for range count {
		e := Entry{Place: uint32(in.number(4))}
		record := in.take(int(in.byte()))
		if in.short || e.Place >= mirrorPlaces {
			return errors.New("mirror: an entry makes no sense")
		}
		if len(record) > 0 {
			if err := e.Record.UnmarshalBinary(record); err != nil {
				return fmt.Errorf("mirror: %w", err)
			}
		}
		next.Entries = append(next.Entries, e)
	}
	if len(in.rest) > 0 {
		return fmt.Errorf("mirror: %d bytes too many", len(in.rest))
	}
	*m = next
	return nil
}

// Local is a Mirror into a Follower of the same process. Batches go there in their binary form.
type Local struct{ Follower *Follower }

// Publish implements Mirror.
func (l Local) Publish(_ context.Context, b *Batch) error {
	text, err := b.AppendBinary(nil)
	if err != nil {
		return err
	}
	return l.Follower.Receive(text)
}
