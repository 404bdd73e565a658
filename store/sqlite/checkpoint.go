package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"log/slog"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

var (
	_ store.Checkpointer = (*Store)(nil)
	_ store.HeadLister   = (*Store)(nil)
)

// maxCheckpoint bounds the encoded events of a checkpoint, in bytes. A larger
// one is not stored.
const maxCheckpoint = maxPayload

// Cut implements [store.Checkpointer]. The turns in the database are current:
// the start and the end of a turn never go into the journal.
func (s *Store) Cut(ctx context.Context, session string, at int64) (cut int64, err error) {
	if s.closed() {
		return 0, errClosed()
	}
	err = s.reader.cut.QueryRowContext(ctx, session, at).Scan(&cut)
	return cut, s.readError(ctx, err)
}

// Checkpoint implements [store.Checkpointer]. It removes checkpoints that are
// damaged.
func (s *Store) Checkpoint(ctx context.Context, session string, at int64) (runnel.Checkpoint, error) {
	cut, err := s.Cut(ctx, session, at)
	for err == nil && at > cut {
		var log int64
		var c runnel.Checkpoint
		var data []byte
		var sum int64
		err = s.reader.checkpoint.QueryRowContext(ctx, session, at, cut).Scan(&log, &c.Seq, &data, &sum)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
			break
		}
		if err != nil {
			break
		}
		damaged := errDamagedCheckpoint
		if int64(checkpointSum(session, c.Seq, data)) == sum {
			damaged = json.Unmarshal(data, &c.Events)
		}
		if damaged == nil {
			return c, nil
		}
		s.log.Warn("a checkpoint is damaged; it is removed and made again", slog.String("session", session), slog.Int64("seq", c.Seq), slog.Any("error", damaged))
		s.dropCheckpoint(ctx, log, c.Seq)
		at = c.Seq - 1
	}
	return runnel.Checkpoint{Seq: cut}, s.readError(ctx, err)
}

var errDamagedCheckpoint = errors.New("sqlite: the checkpoint does not match its checksum")

// dropCheckpoint removes a checkpoint. If it fails, the next reader tries
// again.
func (s *Store) dropCheckpoint(ctx context.Context, log, seq int64) {
	err := s.submit(ctx, execJob("DELETE FROM checkpoints WHERE session = ? AND seq = ?", log, seq))
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the damaged checkpoint could not be removed", slog.Any("error", err))
	}
}

// PutCheckpoint implements [store.Checkpointer]. It waits until no other job is
// running. The transaction first inserts the events of the journal. So even
// after a power loss, the database has the events that a checkpoint replaces.
func (s *Store) PutCheckpoint(ctx context.Context, session string, c runnel.Checkpoint) error {
	data, err := json.Marshal(c.Events)
	if err != nil || len(data) > maxCheckpoint {
		return err
	}
	sum := checkpointSum(session, c.Seq, data)
	return s.submitIdle(ctx, &job{bytes: len(data), do: func(w *writer) error {
		p, err := w.position(session)
		if err != nil {
			return err
		}
		if p.key == 0 || c.Seq > p.head { // the session was deleted
			return store.ErrNotFound
		}
		_, err = w.conn.ExecContext(context.Background(), "INSERT OR REPLACE INTO checkpoints (session, seq, events, crc) VALUES (?, ?, ?, ?)",
			p.key, c.Seq, data, int64(sum))
		return err
	}})
}

// checkpointSum covers all of a checkpoint.
func checkpointSum(session string, seq int64, data []byte) uint32 {
	fixed := binary.BigEndian.AppendUint64(nil, uint64(seq))
	sum := crc32.Update(crc32.Checksum(fixed, castagnoli), castagnoli, []byte(session))
	return crc32.Update(sum, castagnoli, data)
}

// keptCheckpoint is the size in bytes above which a checkpoint within a turn is
// removed when the turn is compacted. Such a checkpoint has the text of long
// items that were unfinished. Compaction removes most events of these items, so
// that a fold that starts before them is fast without it.
const keptCheckpoint = 16 << 10

// thinCheckpoints removes the large checkpoints within a turn that has ended.
func (w *writer) thinCheckpoints(ctx context.Context, t finishedTurn) error {
	_, err := w.conn.ExecContext(ctx, "DELETE FROM checkpoints WHERE session = ? AND seq > ? AND seq < ? AND length(events) > ?",
		t.log, t.after, t.end, keptCheckpoint)
	return err
}
