package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/internal/wake"
	"github.com/runnel-dev/runnel/store"
)

// A recordWriter writes the records of sessions that changed. Sessions do not
// wait for the catalogue: they only mark their record as changed. Its goroutine
// is the caller of run.
type recordWriter struct {
	catalogue store.Catalogue
	reports   reports
	log       *slog.Logger
	kick      wake.Signal // holds a token once changed is not empty
	urgent    wake.Signal // holds a token once a change must not wait for others

	// writing is held from reading a record until it is written, so that an
	// older state never replaces a newer one. It guards entry.retired.
	writing sync.Mutex

	mu      sync.Mutex // guards changed
	changed map[*entry]struct{}
}

const (
	gatherTime     = 100 * time.Millisecond // how long changes are gathered before they are written
	catalogueRetry = time.Second            // pause after a catalogue failed
)

func newRecordWriter(catalogue store.Catalogue, reports reports, log *slog.Logger) *recordWriter {
	return &recordWriter{
		catalogue: catalogue, reports: reports, log: log, changed: make(map[*entry]struct{}),
		kick: wake.New(), urgent: wake.New(),
	}
}

// mark notes that e's record has changed; an urgent change is written at once.
// It does not wait for the catalogue.
func (w *recordWriter) mark(e *entry, urgent bool) {
	w.mu.Lock()
	w.changed[e] = struct{}{}
	w.mu.Unlock()
	w.kick.Send()
	if urgent {
		w.urgent.Send()
	}
}

// take returns the entries whose record has changed since the last call.
func (w *recordWriter) take() []*entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]*entry, 0, len(w.changed))
	for e := range w.changed {
		out = append(out, e)
	}
	clear(w.changed)
	return out
}

// run writes changed records until ctx ends, and then once more.
func (w *recordWriter) run(ctx context.Context) {
	for {
		select {
		case <-w.kick:
		case <-ctx.Done():
			w.flush(context.WithoutCancel(ctx))
			return
		}
		wait := gatherTime
		if !w.flush(ctx) {
			wait = catalogueRetry
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-w.urgent:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

// flush writes the changed records. It keeps those that it cannot write for the
// next time, and reports false.
func (w *recordWriter) flush(ctx context.Context) bool {
	ok := true
	for _, e := range w.take() {
		if err := w.write(ctx, e); err != nil {
			ok = false
			w.log.LogAttrs(ctx, slog.LevelError, "session record not written", slog.String("session", e.rec.ID), slog.String("error", err.Error()))
			w.mark(e, false) // also if the gateway is closing: run writes once more
		}
	}
	return ok
}

// write writes e's record as it is now, unless e is retired.
func (w *recordWriter) write(ctx context.Context, e *entry) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if e.retired {
		return nil
	}
	rec, _ := e.snapshot()
	if err := w.catalogue.PutSession(ctx, rec); err != nil {
		return storeError(err)
	}
	return w.reports.write(ctx, e)
}

// retire ends the writing of e's record: another entry writes it from now on,
// or nobody does. run may have taken e already.
func (w *recordWriter) retire(e *entry) {
	w.writing.Lock()
	e.retired = true
	w.writing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.changed, e)
}
