package dataplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"bigpipe/dataplane/pool"
)

// removedName is the file in the state directory that holds the members that were removed and are honoured for token_retain, so that
// the next process honours them too: JSON, lists by the names of pools. It is there while there are any.
const removedName = "removed"

// removed are the members that pools still honour though they were removed. The engine's lock guards it.
type removed struct {
	path string // "" without a state directory
	// former is what the process before this one has kept; nil once there is a whole configuration.
	former map[string][]pool.Removed
	now    map[string][]pool.Removed
	// written is what the file holds; nil: there is none.
	written []byte
	failed  bool // the last attempt to write has
}

// read reads what the process before this one has kept. Damage is logged.
func (r *removed) read(o *EngineOptions) {
	r.path = filepath.Join(o.StateDir, removedName)
	text, err := os.ReadFile(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		r.written = text
		err = json.Unmarshal(text, &r.former)
	}
	if err != nil {
		o.Log.Error("members that were removed are not honoured any more", "path", r.path, "error", err)
	}
}

// note takes in what the named pools honour now.
func (r *removed) note(next *runtime, names map[string]struct{}) {
	for name := range names {
		if list := next.pools[name].Removed(); list != nil {
			if r.now == nil {
				r.now = map[string][]pool.Removed{}
			}
			r.now[name] = list
		} else {
			delete(r.now, name)
		}
	}
	if next.applied.GetProtocol() != 0 { // else it is damaged, and a whole one is to come
		r.former = nil
	}
}

// write brings the file up to date. It is not waited for the disk: after a crash of the machine clients may move.
func (r *removed) write() error {
	if len(r.now) == 0 {
		if r.written == nil {
			return nil
		}
		if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		r.written = nil
		return nil
	}
	text, err := json.Marshal(r.now)
	if err != nil {
		return fmt.Errorf("members that were removed: %w", err)
	}
	if bytes.Equal(text, r.written) {
		return nil
	}
	if err := os.WriteFile(r.path+".new", text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(r.path+".new", r.path); err != nil {
		return err
	}
	r.written = text
	return nil
}

// keep is write for when nobody can do anything about an error: it is logged once, and writing is tried again with the next change.
func (r *removed) keep(log *slog.Logger) {
	if r.path == "" {
		return
	}
	err := r.write()
	if err != nil && !r.failed {
		log.Error("cannot keep which members were removed; they are honoured until this process ends", "path", r.path, "error", err)
	}
	r.failed = err != nil
}
