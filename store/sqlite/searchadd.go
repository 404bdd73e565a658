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
		key, err := moveSession(ctx, tx, s, after, seq)
		if err != nil || len(items) == 0 {
			return err
		}
		has, err := tx.PrepareContext(ctx, "SELECT EXISTS (SELECT 1 FROM items WHERE session = ? AND item = ? AND kind = ? AND seq = ?)")
		if err != nil {
			return err
		}
		defer has.Close()
		add, err := tx.PrepareContext(ctx, "INSERT INTO items (id, at, session, seq, turn, item, kind) VALUES (?, ?, ?, ?, ?, ?, ?)")
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
			if s.State != "" {
				var known bool
				if err := has.QueryRowContext(ctx, key, it.Item, string(it.Kind), it.Seq).Scan(&known); err != nil {
					return err
				}
				if known {
					continue
				}
			}
			id, err := x.freeID(ctx, tx, it.At)
			if err != nil {
				return err
			}
			if _, err := add.ExecContext(ctx, id, millisOf(it.At), key, it.Seq, it.Turn, it.Item, string(it.Kind)); err != nil {
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
func moveSession(ctx context.Context, tx *sql.Tx, s store.SearchSession, after, seq int64) (key int64, err error) {
	var at int64
	err = tx.QueryRowContext(ctx, "SELECT key, seq FROM sessions WHERE session = ?", s.ID).Scan(&key, &at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	if at != after || seq < after && s.State == "" {
		return 0, store.ErrConflict
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO sessions (session, seq, state) VALUES (?, ?, ?)
		ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, state = excluded.state RETURNING key`, s.ID, seq, s.State).Scan(&key)
	return key, err
}

const (
	idBits  = 10
	perTime = 1 << idBits // items of one second
	maxMS   = 1 << 42     // in the year 2109
)

// millisOf returns a time in milliseconds, within the bounds of an id.
func millisOf(at time.Time) int64 { return min(max(at.UnixMilli(), 0), maxMS) }

// firstID returns the lowest id of the items of a second.
func firstID(at time.Time) int64 { return millisOf(at) / 1000 << idBits }

// maxFull bounds SearchIndex.full. An import fills at most some thousand seconds.
const maxFull = 1 << 16

// freeID returns an id for an item of a time. It is higher than those of the
// other items of that second. If they have all ids of the second, it is an id
// of a later second. x.full has seconds without a free id, each with a later
// second before which freeID found none, so that a file with many items of the
// same time, or of each second of an hour, costs no search through all of them
// for each item.
func (x *SearchIndex) freeID(ctx context.Context, tx *sql.Tx, at time.Time) (int64, error) {
	first := firstID(at)
	var full []int64
	for {
		if later := x.full[first]; later > first {
			full, first = append(full, first), later
			continue
		}
		var id int64
		err := tx.QueryRowContext(ctx, "SELECT coalesce(max(id) + 1, ?1) FROM items WHERE id BETWEEN ?1 AND ?2", first, first+perTime-1).Scan(&id)
		if err != nil || id < first+perTime {
			x.noteFull(full, first)
			return id, err
		}
		full, first = append(full, first), first+perTime
	}
}

// noteFull notes that there is no free id in the given seconds, and none between
// them and the second later.
func (x *SearchIndex) noteFull(full []int64, later int64) {
	if x.full == nil || len(x.full)+len(full) > maxFull {
		x.full = make(map[int64]int64)
	}
	for _, second := range full[:min(len(full), maxFull)] {
		x.full[second] = later
	}
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
