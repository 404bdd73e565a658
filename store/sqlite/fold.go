package sqlite

import (
	"database/sql"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// foldAtOnce is the number of events that one statement inserts.
const foldAtOnce = 32

// insertEvents returns a statement that inserts n events.
func insertEvents(n int) string {
	return "INSERT INTO events (session, seq, turn, type, at, payload, crc) VALUES " +
		strings.Repeat("(?, ?, ?, ?, ?, ?, ?), ", n-1) + "(?, ?, ?, ?, ?, ?, ?)"
}

// typeNames are the types of events as parameters of a statement. Converting a
// string to an interface would allocate.
var typeNames = func() map[string]any {
	names := make(map[string]any)
	for _, name := range event.Types() {
		names[name] = name
	}
	return names
}()

// insertAll adds rows, foldAtOnce of them in one statement.
func (w *writer) insertAll(rows []pendingRow) error {
	for len(rows) > 0 {
		n, stmt := foldAtOnce, w.addEvents
		if len(rows) < n {
			n, stmt = 1, w.addEvent
		}
		if err := w.insert(stmt, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// insert adds the rows of events, and the usage that the events report.
func (w *writer) insert(stmt *sql.Stmt, rows []pendingRow) error {
	args := w.args[:0]
	for _, r := range rows {
		args = append(args, r.log, r.Seq, r.turn, typeNames[event.Type(r.Body)], encodeTime(r.At), r.payload, int64(r.sum))
	}
	_, err := stmt.Exec(args...)
	clear(args)
	w.args = args
	for _, r := range rows {
		if err == nil {
			err = w.noteUsage(r.log, r.turn, r.row)
		}
	}
	return err
}
