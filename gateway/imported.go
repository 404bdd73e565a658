package gateway

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/exported"
	"github.com/runnel-dev/runnel/store"
)

// SessionImported is the code of the notice that ends an imported log.
const SessionImported = "SESSION_IMPORTED"

// MaxImport is the maximum size of an imported file, in bytes.
const MaxImport = exported.MaxFile

// Imports makes sessions of the files that exports of sessions wrote.
type Imports struct{ g *Gateway }

// ImportsOf returns the imports of g.
func ImportsOf(g *Gateway) Imports { return Imports{g} }

// An Imported is the result of an import.
type Imported struct {
	SessionID string `json:"sessionId" doc:"Id of the new session."`
	CLIType   string `json:"cliType"`
	From      string `json:"from" doc:"Id that the exported session had."`
	Turns     int    `json:"turns" doc:"Number of imported turns."`
	Events    int    `json:"events" doc:"Number of imported events."`
}

// Import creates a session of the project dir with the items of an exported
// session. file is the export as JSON Lines; see [exported.Read]. cliType is
// the kind of agent that continues the session; if it is empty, it is the one
// that the file names.
//
// The agent does not know the imported turns: the first prompt begins a new
// conversation of the agent. Import therefore leaves out what holds only for
// the old conversation, such as its id and its permission mode. After an error
// no session is left.
func (i Imports) Import(ctx context.Context, cliType, dir string, file io.Reader) (Imported, error) {
	g := i.g
	leave, err := g.sessions.enter()
	if err != nil {
		return Imported{}, err
	}
	defer leave()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(g.opener.ctx, stop)()
	if cliType != "" {
		if _, err := g.opener.providers.Choose(cliType); err != nil { // before the file is read
			return Imported{}, err
		}
	}
	if dir, err = g.opener.projects.check(dir); err != nil {
		return Imported{}, err
	}
	if own := onlyProject(ctx); own != "" && dir != own {
		return Imported{}, errMoved
	}
	im := importing{limits: g.opener.limits}
	id := uuid.NewString()
	images := g.pictures.reader(id) // they come before the session's record; after a crash the next start removes them
	kept := false
	defer func() {
		if !kept {
			g.pictures.remove(id)
		}
	}()
	events := im.counted(ctx, images.checked(exported.Read(file, images.keep)))
	if cliType == "" {
		next, stop := iter.Pull2(events)
		defer stop()
		if cliType, events, err = agentOf(next); err != nil {
			return Imported{}, err
		}
	}
	p, err := g.opener.providers.Choose(cliType)
	if err != nil {
		return Imported{}, err
	}
	rec, err := newRecord(g.cfg.Sealer, p, dir, runnel.Options{}, resolution{})
	if err != nil {
		return Imported{}, err
	}
	rec.ID = id
	if g.cfg.Filter != nil {
		events = runnel.Filtered(g.cfg.Filter(runnel.Options{Dir: dir}), events)
	}
	// The session is in lists from now on. hold lets calls for it wait for its events.
	if _, err := g.sessions.hold(ctx, id, nil, func() error { return i.store(ctx, rec, im.ended(events)) }); err != nil {
		return Imported{}, err
	}
	kept = true
	g.feed.touch(rec.ID)
	im.result.SessionID, im.result.CLIType = rec.ID, rec.CLIType
	return im.result, nil
}

// store stores a session with the given events. Until it has them all, the
// session is loading, so that a crash leaves no session.
func (i Imports) store(ctx context.Context, rec store.Session, events iter.Seq2[event.Event, error]) error {
	o := i.g.opener
	rec.State = event.StateLoading
	if err := o.cfg.Catalogue.PutSession(ctx, rec); err != nil {
		return storeError(err)
	}
	e := &entry{rec: rec} // folds the events into the record, as for an open session
	err := fillLog(ctx, o.cfg.Log, rec.ID, func(yield func(event.Event, error) bool) {
		for ev, err := range events {
			if err == nil {
				e.note(ev)
			}
			if !yield(ev, err) {
				return
			}
		}
	})
	if err == nil {
		e.rec.State, e.rec.LastActiveAt = event.StateOpen, rec.CreatedAt // the times in the file may be any
		var report store.Report
		if report, err = e.reported.record(); err == nil {
			err = o.cfg.Catalogue.PutReport(ctx, rec.ID, report) // without it, each status would be read from the log
		}
		if err == nil {
			err = o.cfg.Catalogue.PutSession(ctx, e.rec)
		}
		if err != nil {
			err = storeError(err)
		}
	}
	if err != nil {
		o.erase(rec.ID)
	}
	return err
}

// importing counts and prepares the events of an import.
type importing struct {
	limits *limiter
	stored int64 // approximate size of the events, in bytes
	result Imported
}

// counted yields the events of a file as they are imported.
func (im *importing) counted(ctx context.Context, evs iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for ev, err := range evs {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				err = im.count(ev)
			}
			if err != nil {
				yield(ev, err)
				return
			}
			if body := imported(ev.Body); body != nil {
				ev.Body = body
				if !yield(ev, nil) {
					return
				}
			}
		}
	}
}

func (im *importing) count(ev event.Event) error {
	im.result.From = ev.Session
	im.result.Events++
	if event.Ends(ev.Body) {
		im.result.Turns++
	}
	im.stored += int64(event.Weight(ev.Body))
	if err := im.limits.stored(0, im.stored); err != nil {
		return err
	}
	return nil
}

// ended adds the note about the origin of the events after the last one.
func (im *importing) ended(evs iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for ev, err := range evs {
			if !yield(ev, err) || err != nil {
				return
			}
		}
		yield(event.Event{At: time.Now(), Body: event.Notice{Level: event.LevelInfo, Code: SessionImported, Message: fmt.Sprintf(
			"this session was imported from an export of the session %s. The agent does not know the imported turns (%d): the next prompt begins a new conversation", im.result.From, im.result.Turns)}}, nil)
	}
}

// imported returns the body with which an event is imported, or nil if it is
// left out.
func imported(b event.Body) event.Body {
	switch b := b.(type) {
	case event.SessionUpdated:
		if b.Title == "" {
			return nil
		}
		return event.SessionUpdated{Title: b.Title, TitleBy: b.TitleBy}
	case event.ApprovalResolved:
		b.Rule = 0 // the number of a rule of another server
		return b
	}
	return b
}

// maxBefore bounds the events that are held until the first turn names its
// agent.
const maxBefore = 1000

// agentOf returns the kind of agent that the first turn names, and all the
// events that next returns.
func agentOf(next func() (event.Event, error, bool)) (string, iter.Seq2[event.Event, error], error) {
	var before []event.Event
	for len(before) < maxBefore {
		ev, err, ok := next()
		if err != nil {
			return "", nil, err
		}
		if !ok {
			break
		}
		before = append(before, ev)
		if b, isStart := ev.Body.(event.ResponseStart); isStart {
			return b.ProviderID, joined(before, next), nil
		}
	}
	return "", nil, runnel.Fail(runnel.InvalidRequest, "cliType: is missing, and the file has no turn that names the agent")
}

// joined yields the events in before, followed by those of next.
func joined(before []event.Event, next func() (event.Event, error, bool)) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, ev := range before {
			if !yield(ev, nil) {
				return
			}
		}
		for {
			ev, err, ok := next()
			if !ok || !yield(ev, err) || err != nil {
				return
			}
		}
	}
}
