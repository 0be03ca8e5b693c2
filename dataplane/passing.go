package dataplane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"bigpipe/dataplane/handover"
	"bigpipe/dataplane/persist"
)

// What two dataplanes say to each other when one takes the other's place:
//
//	giver: lock, configuration ..., sockets ..., kept sockets ..., records ..., health ..., prepared
//	taker: ready                      it could begin now
//	giver: records ..., yours         it accepts nothing any more; these records were used meanwhile
//	taker: mine
//	giver: agreed                     from here on there is no way back
//	giver: touched ..., ended         while its connections last
//
// Until agreed the giver goes on as before when the other one fails, and the taker ends.
const (
	sayLock handover.Kind = iota + 16
	sayConfiguration
	saySockets
	sayKept
	sayRecords
	sayPrepared
	sayReady
	sayYours
	sayMine
	sayAgreed
	sayTouched
	sayEnded
	sayHealth
)

const (
	// stepLimit is how long one side waits for a step of the other.
	stepLimit = 10 * time.Second
	// prepareLimit is how long the taker may take to be ready, and to receive everything.
	prepareLimit = time.Minute
)

// sayer writes what it is given as messages of one kind.
type sayer struct {
	conn *handover.Conn
	kind handover.Kind
}

// Write implements io.Writer.
func (s sayer) Write(b []byte) (n int, err error) {
	for piece := range pieces(b) {
		if err := s.conn.Send(s.kind, piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

func pieces(b []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(len(b), handover.MaxPayload)
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

// saySocketsOf sends sockets in messages of as many as fit, with their names a line each.
func saySocketsOf(conn *handover.Conn, kind handover.Kind, list []handover.Socket) error {
	for len(list) > 0 {
		var names []byte
		n := 0
		for n < min(len(list), handover.MaxFiles) && len(names)+len(list[n].Name) < handover.MaxPayload {
			names = append(append(names, list[n].Name...), '\n')
			n++
		}
		if n == 0 {
			return fmt.Errorf("the name of a socket has %d bytes", len(list[0].Name))
		}
		if err := conn.Send(kind, names, files(list[:n])...); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// sayRecordsOf sends the records of a table that were bound or used within the last while; zero: all.
func sayRecordsOf(conn *handover.Conn, kind handover.Kind, table *persist.Table, within time.Duration) error {
	w := recordWriter{conn: conn, kind: kind}
	for r := range table.List(persist.Filter{}) {
		if within > 0 && r.Idle > within && r.Age > within {
			continue
		}
		if err := w.write(&r); err != nil {
			return err
		}
	}
	return w.flush()
}

// recordWriter puts records into messages, each with its length before it.
type recordWriter struct {
	conn  *handover.Conn
	kind  handover.Kind
	batch []byte
	one   []byte
}

func (w *recordWriter) write(r *persist.Record) error {
	w.one, _ = r.AppendBinary(w.one[:0]) // it has no error
	if len(w.batch)+len(w.one)+2 > handover.MaxPayload {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.batch = append(binary.BigEndian.AppendUint16(w.batch, uint16(len(w.one))), w.one...)
	return nil
}

func (w *recordWriter) flush() error {
	if len(w.batch) == 0 {
		return nil
	}
	err := w.conn.Send(w.kind, w.batch)
	w.batch = w.batch[:0]
	return err
}

// readRecords calls take for each record of a message.
func readRecords(b []byte, take func(*persist.Record)) error {
	for len(b) > 0 {
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return fmt.Errorf("records: %w", io.ErrUnexpectedEOF)
		}
		n := 2 + int(binary.BigEndian.Uint16(b))
		var r persist.Record
		if err := r.UnmarshalBinary(b[2:n]); err != nil {
			return err
		}
		take(&r)
		b = b[n:]
	}
	return nil
}

// expect receives a message that must be of one kind and carry nothing.
func expect(conn *handover.Conn, kind handover.Kind, within time.Duration) error {
	conn.Within(within)
	m, err := conn.Receive()
	if err != nil {
		return err
	}
	m.Close()
	if m.Kind != kind {
		return outOfPlace(m.Kind)
	}
	return nil
}

func outOfPlace(kind handover.Kind) error {
	return fmt.Errorf("a message of kind %d is out of place", kind)
}

// ErrHandedOver means that another process has taken this one's place.
var ErrHandedOver = errors.New("another process has taken over")
