package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/internal/wake"
	"github.com/runnel-dev/runnel/store"
)

// A recordWriter writes changed records of sessions to the catalogue. Sessions
// do not wait for the catalogue: they only mark their record as changed. The
// goroutine that calls run writes the marked records.
type recordWriter struct {
	catalogue store.Catalogue
	reports   reports
	log       *slog.Logger
	kick      wake.Signal // holds a token if changed may have entries
	urgent    wake.Signal // holds a token if an entry in changed must be written at once

	// writing is held from reading a record until it is in the catalogue, so
	// that an older state never replaces a newer one. It guards entry.retired.
	writing sync.Mutex

	mu      sync.Mutex // guards changed
	changed map[*entry]struct{}
}

const (
	gatherTime     = 100 * time.Millisecond // minimum pause between two writes, unless a change is urgent
	catalogueRetry = time.Second            // pause after a failure of the catalogue
)

func newRecordWriter(catalogue store.Catalogue, reports reports, log *slog.Logger) *recordWriter {
	return &recordWriter{
		catalogue: catalogue, reports: reports, log: log, changed: make(map[*entry]struct{}),
		kick: wake.New(), urgent: wake.New(),
	}
}

// mark schedules the writing of e's record. If urgent, it is written without
// the usual pause. mark does not wait for the catalogue.
func (w *recordWriter) mark(e *entry, urgent bool) {
	w.mu.Lock()
	w.changed[e] = struct{}{}
	w.mu.Unlock()
	w.kick.Send()
	if urgent {
		w.urgent.Send()
	}
}

// take returns the entries that were marked since the last call.
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

// run writes changed records until ctx ends, and once more after that. The end
// of ctx interrupts no write.
func (w *recordWriter) run(ctx context.Context) {
	writing := context.WithoutCancel(ctx)
	for {
		select {
		case <-w.kick:
		case <-ctx.Done():
			w.flush(writing)
			return
		}
		wait := gatherTime
		if !w.flush(writing) {
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

// flush writes the changed records. If it cannot write some of them, it marks
// them again and returns false.
func (w *recordWriter) flush(ctx context.Context) bool {
	ok := true
	for _, e := range w.take() {
		if err := w.write(ctx, e); err != nil {
			ok = false
			w.log.LogAttrs(ctx, slog.LevelError, "session record not written", slog.String("session", e.rec.ID), slog.String("error", err.Error()))
			w.mark(e, false)
		}
	}
	return ok
}

// write writes the current record of e and what its agent reported. It does
// nothing if e is retired.
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

// retire stops the writing of e's record, because another entry now writes it
// or the record must not change any more. When retire returns, no write of e is
// in progress.
func (w *recordWriter) retire(e *entry) {
	w.writing.Lock()
	e.retired = true
	w.writing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.changed, e)
}
