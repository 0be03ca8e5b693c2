package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"bigpipe/dataplane/handover"
	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// Taken is what a running dataplane has given to this process, which takes its place when an engine is made of it. Until then
// the other one goes on.
type Taken struct {
	conn    *handover.Conn
	lock    *os.File
	header  *pb.ApplyHeader
	tree    *config.Tree
	records *persist.Table
	health  knownHealth
	log     *slog.Logger
}

// Take asks the dataplane that runs with a state directory for everything it has. The sockets are added to s. It returns nil
// if none runs, or it dies meanwhile. On an error the other one goes on.
func Take(ctx context.Context, stateDir string, s *handover.Sockets, log *slog.Logger) (*Taken, error) {
	conn, err := handover.Dial(ctx, stateDir)
	if errors.Is(err, handover.ErrNobody) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	t := &Taken{conn: conn, log: log, records: persist.New(persist.Options{})}
	if err := t.receive(s); err != nil {
		t.Close()
		s.Drop()
		if died(ctx, stateDir, err) {
			log.Warn("the dataplane that was to be taken over has died", "pid", conn.PID(), "error", err)
			return nil, nil
		}
		return nil, fmt.Errorf("take over from process %d: %w", conn.PID(), err)
	}
	log.Info("taking over", "pid", conn.PID(), "revision", t.header.GetRevision(), "objects", t.tree.Len(""), "records", t.records.Len())
	return t, nil
}

// died reports whether an error means that the process at the other end is no more: the connection broke without a word, and
// nobody waits for others in its place.
func died(ctx context.Context, stateDir string, err error) bool {
	if _, refused := errors.AsType[handover.Refused](err); refused {
		return false
	}
	return !handover.Alive(ctx, stateDir)
}

// Close gives up; the other dataplane goes on.
func (t *Taken) Close() {
	if t == nil {
		return
	}
	_ = t.conn.Close()
	if t.lock != nil {
		_ = t.lock.Close()
	}
}

// receive takes what comes before the other one waits.
func (t *Taken) receive(s *handover.Sockets) error {
	var text, health bytes.Buffer
	t.conn.Within(prepareLimit)
	for {
		m, err := t.conn.Receive()
		if err != nil {
			return err
		}
		if m.Kind == sayPrepared {
			break
		}
		if err := t.take(&m, &text, &health, s); err != nil {
			m.Close()
			return err
		}
	}
	if t.lock == nil {
		return errors.New("it did not give the state directory")
	}
	var err error
	if t.tree, t.header, err = new(journal).read(&text); err != nil {
		return fmt.Errorf("the configuration: %w", err)
	}
	if health.Len() > 0 { // not from one that knows nothing of it
		if err := json.Unmarshal(health.Bytes(), &t.health); err != nil {
			return fmt.Errorf("the health of members: %w", err)
		}
	}
	return nil
}

func (t *Taken) take(m *handover.Message, text, health *bytes.Buffer, s *handover.Sockets) error {
	switch {
	case m.Kind == sayLock && len(m.Files) == 1 && t.lock == nil:
		t.lock = m.Files[0]
	case m.Kind == sayConfiguration && len(m.Files) == 0:
		text.Write(m.Payload)
	case m.Kind == sayHealth && len(m.Files) == 0:
		health.Write(m.Payload)
	case m.Kind == saySockets || m.Kind == sayKept:
		return takeSockets(m, s)
	case m.Kind == sayRecords && len(m.Files) == 0:
		return readRecords(m.Payload, func(r *persist.Record) { t.records.Import(*r) })
	default:
		return outOfPlace(m.Kind)
	}
	return nil
}

func takeSockets(m *handover.Message, s *handover.Sockets) error {
	names := strings.Split(strings.TrimSuffix(string(m.Payload), "\n"), "\n")
	if len(names) != len(m.Files) {
		return fmt.Errorf("%d sockets with %d names", len(m.Files), len(names))
	}
	for i, name := range names {
		if m.Kind == sayKept {
			s.Keep(name, m.Files[i])
		} else {
			s.Add(name, m.Files[i])
		}
	}
	return nil
}

// claim makes the engine the one that runs: the other dataplane accepts no more, and this one begins. On an error the other one
// goes on.
func (e *Engine) claim(t *Taken) error {
	if err := t.conn.Send(sayReady, nil); err != nil {
		return err
	}
	t.conn.Within(stepLimit)
	for {
		m, err := t.conn.Receive()
		if err != nil {
			return err
		}
		if m.Kind == sayYours {
			break
		}
		if m.Kind != sayRecords || len(m.Files) > 0 {
			m.Close()
			return outOfPlace(m.Kind)
		}
		if err := readRecords(m.Payload, func(r *persist.Record) { e.records.Import(*r) }); err != nil {
			return err
		}
	}
	if err := t.conn.Send(sayMine, nil); err != nil {
		return err
	}
	if err := expect(t.conn, sayAgreed, stepLimit); err != nil {
		return err
	}
	t.conn.Within(0)
	return nil
}

// hear takes in which records the predecessor uses until its last connection has ended. After that it needs no address any more.
func (e *Engine) hear(t *Taken) {
	defer func() { _ = t.conn.Close() }()
	defer e.holds.settle()
	for {
		m, err := t.conn.Receive()
		if err != nil {
			e.log.Info("the dataplane before this one has ended early", "pid", t.conn.PID(), "error", err)
			return
		}
		m.Close()
		switch m.Kind {
		case sayTouched:
			if err := readRecords(m.Payload, e.touched); err != nil {
				e.log.Warn("records of the dataplane before this one", "pid", t.conn.PID(), "error", err)
				return
			}
		case sayEnded:
			e.log.Info("the dataplane before this one has ended", "pid", t.conn.PID())
			return
		}
	}
}

// touched takes in a record that the predecessor has used: one that is there with the same node lives longer, one that was made
// there just now is made here too. What was cleared or moved here stays so.
func (e *Engine) touched(r *persist.Record) {
	known, ok := e.records.Lookup(r.Key)
	if ok && known.Node == r.Node || !ok && r.Age < 2*reportInterval+time.Second {
		e.records.Import(*r)
	}
}
