package gateway

import "context"

// Seen records that somebody has seen a session's log up to a position, and
// returns the position up to which it was seen on any device. That position
// never decreases, and is never after the end of the log.
//
// Clients may call Seen often: the position of an open session is written with
// its record, a little later.
func (h Housekeeping) Seen(ctx context.Context, ref string, seq int64) (int64, error) {
	id, err := h.g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return 0, err
	}
	for {
		e, err := h.g.opened(ctx, id)
		if err != nil {
			return 0, err
		}
		if e != nil {
			defer h.g.sessions.release(e)
			return e.see(seq), nil
		}
		var seen int64
		held, err := h.g.sessions.hold(ctx, id, nil, func() error {
			seen, err = h.seeStored(ctx, id, seq)
			return err
		})
		if held || err != nil { // else the session was opened meanwhile
			return seen, err
		}
	}
}

// see is [Housekeeping.Seen] for an open session.
func (e *entry) see(seq int64) int64 {
	seq = min(seq, e.session.Status().Head)
	e.mu.Lock()
	news := seq > e.rec.SeenSeq
	if news {
		e.rec.SeenSeq = seq
	}
	seen := e.rec.SeenSeq
	e.mu.Unlock()
	if news {
		e.feed.touch(e.rec.ID)
		e.records.mark(e, false)
	}
	return seen
}

// seeStored is [Housekeeping.Seen] for a session that is not open and that
// nobody can open meanwhile.
func (h Housekeeping) seeStored(ctx context.Context, id string, seq int64) (int64, error) {
	rec, err := h.g.opener.record(ctx, id)
	if err != nil {
		return 0, err
	}
	st, err := h.g.cfg.Log.State(ctx, id)
	if err != nil {
		return 0, storeError(err)
	}
	if seq = min(seq, st.Head); seq <= rec.SeenSeq {
		return rec.SeenSeq, nil
	}
	rec.SeenSeq = seq
	if err := h.g.cfg.Catalogue.PutSession(context.WithoutCancel(ctx), rec); err != nil {
		return 0, storeError(err)
	}
	h.g.feed.touch(id)
	return seq, nil
}
