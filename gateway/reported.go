package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// maxFiles is how many of its own files an agent can report in a session.
// Further ones are ignored.
const maxFiles = 100

// reported is what the agents of a session have reported about themselves, in
// this server process and earlier ones.
type reported struct {
	config []event.ConfigOption // from the newest report that has any
	files  []event.AgentFile

	commands []event.AgentCommand // from the newest report that has any
}

// take adds a report, and reports whether r has changed.
func (r *reported) take(b event.SessionUpdated) (changed bool) {
	if b.Config != nil && !reflect.DeepEqual(b.Config, r.config) {
		r.config, changed = b.Config, true
	}
	if b.Commands != nil && !slices.Equal(b.Commands, r.commands) {
		r.commands, changed = b.Commands, true
	}
	for _, f := range b.Files {
		if !slices.Contains(r.files, f) && len(r.files) < maxFiles {
			r.files, changed = append(r.files, f), true
		}
	}
	return changed
}

// with returns a copy of r to which newer was added.
func (r reported) with(newer reported) reported {
	r.files = slices.Clone(r.files)
	r.take(event.SessionUpdated{Config: newer.config, Files: newer.files, Commands: newer.commands})
	return r
}

// record returns r in the form that the catalogue stores.
func (r reported) record() (rec store.Report, err error) {
	for to, v := range map[*json.RawMessage]any{&rec.Config: r.config, &rec.Files: r.files, &rec.Commands: r.commands} {
		if *to, err = json.Marshal(v); err != nil {
			return rec, err
		}
	}
	return rec, nil
}

// reports reads and writes what the agents of sessions have reported.
type reports struct {
	catalogue store.Catalogue
	log       runnel.Log
}

// read returns what the agents of a session have reported. kept is true if the
// catalogue has it. An older server version stored no reports in the catalogue,
// so the reports of its sessions are only in the log.
func (rs reports) read(ctx context.Context, id string) (r reported, kept bool, err error) {
	rec, err := rs.catalogue.Report(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		r, err = rs.readLog(ctx, id)
		return r, false, err
	}
	if err != nil {
		return r, false, storeError(err)
	}
	if err := errors.Join(json.Unmarshal(orNull(rec.Config), &r.config), json.Unmarshal(orNull(rec.Files), &r.files), json.Unmarshal(orNull(rec.Commands), &r.commands)); err != nil {
		return r, true, runnel.Fail(runnel.Internal, "the stored report of the agent cannot be read", err)
	}
	return r, true, nil
}

func (rs reports) readLog(ctx context.Context, id string) (r reported, err error) {
	for ev, err := range rs.log.Read(ctx, id, 0) {
		if err != nil {
			return r, storeError(err)
		}
		if b, ok := ev.Body.(event.SessionUpdated); ok {
			r.take(b)
		}
	}
	return r, nil
}

func orNull(data json.RawMessage) []byte {
	if len(data) == 0 {
		return []byte("null")
	}
	return data
}

// write writes what the agents of e's session have reported to the catalogue,
// if the catalogue does not have all of it. The caller prevents concurrent
// writes for this session.
func (rs reports) write(ctx context.Context, e *entry) error {
	e.mu.Lock()
	unwritten := e.unwritten
	e.mu.Unlock()
	if !unwritten {
		return nil
	}
	if err := e.recall(ctx, rs); err != nil {
		return err
	}
	e.mu.Lock()
	rec, err := e.reported.record()
	e.unwritten = false
	e.mu.Unlock()
	if err == nil {
		err = rs.catalogue.PutReport(ctx, e.rec.ID, rec)
	}
	if err != nil {
		e.mu.Lock()
		e.unwritten = true
		e.mu.Unlock()
		return storeError(err)
	}
	return nil
}

// recall reads what the session's agents reported before the session was
// opened, and adds it to e.reported. After the first success it does nothing.
func (e *entry) recall(ctx context.Context, rs reports) error {
	e.mu.Lock()
	done := e.recalled
	e.mu.Unlock()
	if done {
		return nil
	}
	before, kept, err := rs.read(ctx, e.rec.ID)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.recalled {
		e.reported, e.recalled, e.unwritten = before.with(e.reported), true, e.unwritten || !kept
	}
	return nil
}
