package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/runnel-dev/runnel/store"
)

// AddItems implements [store.SearchIndex].
func (x *SearchIndex) AddItems(ctx context.Context, s store.SearchSession, after, seq int64, items ...store.SearchItem) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	return x.write(ctx, func(tx *sql.Tx) error {
		key, err := moveSession(ctx, tx, s.ID, after, seq)
		if err != nil || len(items) == 0 {
			return err
		}
		add, err := tx.PrepareContext(ctx, "INSERT INTO items (id, session, seq, turn, item, kind) VALUES (?, ?, ?, ?, ?, ?)")
		if err != nil {
			return err
		}
		defer add.Close()
		addText, err := tx.PrepareContext(ctx, "INSERT INTO texts (rowid, text, tags) VALUES (?, ?, ?)")
		if err != nil {
			return err
		}
		defer addText.Close()
		for _, it := range items {
			id, err := freeID(ctx, tx, it.At)
			if err != nil {
				return err
			}
			if _, err := add.ExecContext(ctx, id, key, it.Seq, it.Turn, it.Item, string(it.Kind)); err != nil {
				return err
			}
			tags := strings.Join([]string{kindTag(it.Kind), agentTag(s.CLIType), projectTag(s.ProjectID)}, " ")
			if _, err := addText.ExecContext(ctx, id, spaced(it.Text), tags); err != nil {
				return err
			}
		}
		return nil
	})
}

// moveSession moves the position of a session and returns its key.
func moveSession(ctx context.Context, tx *sql.Tx, session string, after, seq int64) (key int64, err error) {
	var at int64
	err = tx.QueryRowContext(ctx, "SELECT key, seq FROM sessions WHERE session = ?", session).Scan(&key, &at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	if at != after || seq < after {
		return 0, store.ErrConflict
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO sessions (session, seq) VALUES (?, ?)
		ON CONFLICT (session) DO UPDATE SET seq = excluded.seq RETURNING key`, session, seq).Scan(&key)
	return key, err
}

const (
	idBits = 20
	maxMS  = 1 << 42 // in the year 2109
)

// firstID returns the lowest id of the items of a time.
func firstID(at time.Time) int64 { return min(max(at.UnixMilli(), 0), maxMS) << idBits }

// timeOf returns the time of the items with an id.
func timeOf(id int64) time.Time { return time.UnixMilli(id >> idBits).UTC() }

// freeID returns an id for an item of a time. It is higher than those of all
// other items of that time.
func freeID(ctx context.Context, tx *sql.Tx, at time.Time) (id int64, err error) {
	id = firstID(at)
	err = tx.QueryRowContext(ctx, "SELECT coalesce(max(id) + 1, ?1) FROM items WHERE id BETWEEN ?1 AND ?1 + ?2", id, int64(1)<<idBits-1).Scan(&id)
	return id, err
}

// The words of the column tags. The text of an item cannot contain them,
// because queries search only the column text for it.
func kindTag(k store.SearchKind) string { return "k" + hashed(string(k)) }
func agentTag(cliType string) string    { return "a" + hashed(cliType) }
func projectTag(id string) string       { return "p" + hashed(id) }

func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// separator stands between characters that are words of their own in the index.
// It has no width. The tokenizer ignores it, and texts lose their own ones.
const separator = '\u200b'

// spaced returns a text as the index stores it. Each character of a script that
// is written without spaces becomes a word of its own, so that a part of a
// sentence is found as a phrase. It removes the control characters that mark
// matches in snippets.
func spaced(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	var b strings.Builder
	b.Grow(len(text))
	before := false // the last character is a word of its own
	for _, r := range text {
		switch {
		case r == separator || r < ' ' && r != '\n' && r != '\t':
			continue
		case alone(r):
			if b.Len() > 0 {
				b.WriteRune(separator)
			}
			before = true
		case before:
			before = false
			b.WriteRune(separator)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// alone reports whether r belongs to a script that is written without spaces.
func alone(r rune) bool {
	return r >= 0x1100 && (r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo))
}
