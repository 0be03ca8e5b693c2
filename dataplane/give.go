package dataplane

import (
	"errors"
	"fmt"
	"os"
	"time"

	"bigpipe/dataplane/handover"
)

// giver waits for a process that takes the place of this one, and hands it everything over.
type giver struct {
	engine   *Engine
	listener *handover.Listener
	// also are sockets besides those of virtual servers.
	also []handover.Socket
	// done is closed when another process has taken over; successor is the connection to it then.
	done      chan struct{}
	successor *handover.Conn
}

// run serves one process after the other until one has taken over or the listener is closed.
func (g *giver) run() {
	log := g.engine.log
	for {
		conn, err := g.listener.Accept(func(err error) { log.Warn("a process that is not let take over", "error", err) })
		if err != nil {
			return
		}
		log.Info("another process takes over", "pid", conn.PID())
		began := time.Now()
		if err := g.hand(conn); err != nil {
			conn.Refuse(err)
			_ = conn.Close()
			log.Error("nothing was handed over; this process goes on", "pid", conn.PID(), "error", err)
			continue
		}
		log.Info("another process has taken over", "pid", conn.PID(), "took", time.Since(began))
		g.successor = conn
		close(g.done)
		g.listener.Close()
		return
	}
}

// stop ends the wait.
func (g *giver) stop() {
	if g.listener != nil {
		g.listener.Close()
	}
}

// hand hands everything over. No configuration is applied meanwhile. On an error this process accepts again, and nothing has
// changed.
func (g *giver) hand(conn *handover.Conn) error {
	e := g.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.journal == nil {
		return errors.New("this process is ending")
	}
	began := time.Now()
	conn.Within(prepareLimit)
	if err := g.prepare(conn); err != nil {
		return err
	}
	if err := expect(conn, sayReady, prepareLimit); err != nil {
		return fmt.Errorf("the other process is not ready: %w", err)
	}
	e.recordFile.end()
	r := e.running.Load()
	endpoints := r.endpoints()
	for _, l := range endpoints {
		l.Pause()
	}
	if err := g.cede(conn, began); err != nil {
		e.recordFile.resume()
		for _, l := range endpoints {
			l.Resume()
		}
		return err
	}
	e.handed = true
	e.journal.close() // the lock lives on in the other process
	e.journal = nil
	e.holds.leave()
	e.intercepts.kernel.Leave()
	for _, v := range r.virtuals {
		v.drain(e)
	}
	return nil
}

// prepare sends what can be sent while this process still accepts.
func (g *giver) prepare(conn *handover.Conn) error {
	e := g.engine
	r := e.running.Load()
	if err := conn.Send(sayLock, nil, e.journal.lock); err != nil {
		return err
	}
	if _, err := writeWhole(sayer{conn, sayConfiguration}, r.applied, r.view); err != nil {
		return err
	}
	if err := g.saySockets(conn, r); err != nil {
		return err
	}
	if err := sayRecordsOf(conn, sayRecords, e.records, 0); err != nil {
		return err
	}
	if err := e.health.write(sayer{conn, sayHealth}); err != nil {
		return err
	}
	return conn.Send(sayPrepared, nil)
}

// cede gives the place up.
func (g *giver) cede(conn *handover.Conn, began time.Time) error {
	conn.Within(stepLimit)
	if err := sayRecordsOf(conn, sayRecords, g.engine.records, time.Since(began)+time.Second); err != nil {
		return err
	}
	if err := conn.Send(sayYours, nil); err != nil {
		return err
	}
	if err := expect(conn, sayMine, stepLimit); err != nil {
		return fmt.Errorf("the other process does not take over: %w", err)
	}
	return conn.Send(sayAgreed, nil)
}

// saySockets sends the sockets of virtual servers, and others.
func (g *giver) saySockets(conn *handover.Conn, r *runtime) error {
	if err := saySocketsOf(conn, saySockets, g.also); err != nil {
		return err
	}
	var batch []handover.Socket
	flush := func() error {
		err := saySocketsOf(conn, saySockets, batch)
		for _, s := range batch {
			_ = s.File.Close() // a copy
		}
		batch = batch[:0]
		return err
	}
	for _, v := range r.virtuals {
		list, err := v.sockets()
		if batch = append(batch, list...); err != nil || len(batch) >= handover.MaxFiles {
			if err := errors.Join(err, flush()); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return saySocketsOf(conn, sayKept, g.engine.sockets.Kept())
}

// Pauses between two reports of records to the successor. One takes no more than a tenth of the time.
const (
	reportInterval = time.Second
	reportShare    = 10
)

// report tells the successor which records are used here, until the last connection has ended.
func (g *giver) report(drained <-chan struct{}) {
	defer func() { _ = g.successor.Close() }()
	last := time.Now().Add(-reportInterval)
	pause := reportInterval
	for over := false; !over; {
		select {
		case <-drained:
			over = true
		case <-time.After(pause):
		}
		now := time.Now()
		g.successor.Within(prepareLimit)
		if err := sayRecordsOf(g.successor, sayTouched, g.engine.records, now.Sub(last)+reportInterval); err != nil {
			g.engine.log.Warn("the process that has taken over hears no more of records that are used here", "error", err)
			return
		}
		last, pause = now, max(reportInterval, reportShare*time.Since(now))
	}
	_ = g.successor.Send(sayEnded, nil) // it has ended otherwise
}

func files(list []handover.Socket) []*os.File {
	files := make([]*os.File, len(list))
	for i := range list {
		files[i] = list[i].File
	}
	return files
}
