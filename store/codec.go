package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// Buckets of the file. Every value is sealed: four bytes of checksum over key and contents, then the contents.
const (
	// bucketMeta holds "format", "id" and "state".
	bucketMeta = "meta"
	// bucketObjects holds the configuration, by key.
	bucketObjects = "objects"
	// bucketRevisions holds the history: a Revision by its number, 8 bytes.
	bucketRevisions = "revisions"
	// bucketUndo holds what a revision replaced: by its number, 8 bytes, and the object's key. An empty value: there was none.
	bucketUndo = "undo"

	keyFormat = "format"
	keyID     = "id"
	keyState  = "state"
)

// format is the version of this layout.
const format = 1

var bucketNames = []string{bucketMeta, bucketObjects, bucketRevisions, bucketUndo}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errShort    = errors.New("too short to hold a checksum")
	errChecksum = errors.New("wrong checksum")
)

// checksum covers the key too, so that an entry cannot take another one's place.
func checksum(key, contents []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, contents)
}

// seal returns contents with their checksum in front.
func seal(key, contents []byte) []byte {
	sealed := make([]byte, 4, 4+len(contents))
	binary.BigEndian.PutUint32(sealed, checksum(key, contents))
	return append(sealed, contents...)
}

// open returns the contents of a sealed value.
func open(key, sealed []byte) ([]byte, error) {
	if len(sealed) < 4 {
		return nil, errShort
	}
	if binary.BigEndian.Uint32(sealed) != checksum(key, sealed[4:]) {
		return nil, errChecksum
	}
	return sealed[4:], nil
}

// tally counts the entries of a bucket and adds their checksums up, so that lost and doubled entries show.
type tally struct {
	Count uint64 `json:"count"`
	Sum   uint64 `json:"sum"`
}

func (t *tally) add(sealed []byte) {
	t.Count++
	t.Sum += uint64(binary.BigEndian.Uint32(sealed))
}

func (t *tally) remove(sealed []byte) {
	t.Count--
	t.Sum -= uint64(binary.BigEndian.Uint32(sealed))
}

// state is what the entry "state" says of the other buckets.
type state struct {
	Revision  uint64   `json:"revision"`
	Objects   tally    `json:"objects"`
	Revisions tally    `json:"revisions"`
	Undo      tally    `json:"undo"`
	Pending   *Pending `json:"pending,omitempty"`
}

// tally returns the tally of a bucket; nil for one that has none.
func (s *state) tally(bucket string) *tally {
	switch bucket {
	case bucketObjects:
		return &s.Objects
	case bucketRevisions:
		return &s.Revisions
	case bucketUndo:
		return &s.Undo
	}
	return nil
}

func (s *state) encode() ([]byte, error) { return json.Marshal(s) }

// revisionKey is a revision's number as a key that sorts.
func revisionKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// undoKey is the key of what a revision replaced under an object's key.
func undoKey(number uint64, key string) []byte { return append(revisionKey(number), key...) }

// printable writes a binary key so that a person can read it.
func printable(bucket string, key []byte) string {
	if (bucket == bucketRevisions || bucket == bucketUndo) && len(key) >= 8 {
		text := strconv.FormatUint(binary.BigEndian.Uint64(key), 10)
		if len(key) > 8 {
			text += " " + string(key[8:])
		}
		return text
	}
	return strings.ToValidUTF8(string(key), "?")
}

// encodeObject is deterministic, so that equal objects are equal bytes.
func encodeObject(o *pb.Object) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(o)
}
