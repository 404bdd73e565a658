package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// unknownBoot stands for the boot of a system that does not report one.
const unknownBoot = "unknown"

// identify returns the log id. It assigns one to a new database and to a
// backup.
func identify(ctx context.Context, conn *sql.Conn) (id string, err error) {
	if _, err := conn.ExecContext(ctx, "UPDATE identity SET id = ?, boot = '' WHERE id = ''", uuid.NewString()); err != nil {
		return "", err
	}
	err = conn.QueryRowContext(ctx, "SELECT id FROM identity").Scan(&id)
	return id, err
}

// claim records that a process of this boot uses the store. If readers may have
// seen events that the log lacks, claim gives the log another id, so that their
// positions are no longer valid. That is the case if the journal was damaged, or
// if the system has been started again since a process used the store and did
// not close it: a power loss removes what was not flushed. boot identifies the
// boot of the system. If boot is empty and the system does not report its boot,
// claim assumes that the system has been started again.
func (s *Store) claim(ctx context.Context, boot string, damaged bool) error {
	w := s.writer
	boot = cmp.Or(boot, procinfo.BootID(), unknownBoot)
	var last string
	if err := w.conn.QueryRowContext(ctx, "SELECT boot FROM identity").Scan(&last); err != nil {
		return err
	}
	id := w.id
	if damaged || last != "" && (last != boot || last == unknownBoot) {
		id = uuid.NewString()
		s.log.Warn("events that clients received may be missing from the log; clients that resume start again", slog.Bool("journalDamaged", damaged))
	}
	if id == w.id && last == boot {
		return nil
	}
	switch err := w.identity(ctx, id, boot); {
	case w.room.full(err) && id == w.id:
		s.log.Warn("the disk is full; a power loss before the next start will not be detected", slog.Any("error", err))
	case err != nil:
		return err
	}
	w.id = id
	return nil
}

// identity stores the log id and the boot. On a full disk it releases the
// reserve and tries again.
func (w *writer) identity(ctx context.Context, id, boot string) error {
	const change = "UPDATE identity SET id = ?, boot = ?"
	_, err := w.conn.ExecContext(ctx, change, id, boot)
	if err != nil && w.room.full(err) && w.room.give() {
		_, err = w.conn.ExecContext(ctx, change, id, boot)
	}
	return err
}

// unclaim records that the store was closed and its log has all events that
// readers saw. A failure is harmless: the log only gets another id if the
// system is started again before the next process opens the store.
func (w *writer) unclaim() {
	if w.journal != nil && w.failed == nil && w.journal.empty() {
		_, _ = w.conn.ExecContext(context.Background(), "UPDATE identity SET boot = ''")
	}
}
