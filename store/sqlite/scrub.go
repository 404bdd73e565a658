package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// SQLite overwrites a deleted row (secure_delete), but not the copies of the
// row that remained when it moved the row to another page. Those copies lie in
// the unallocated space between the cell pointers and the cells of a page.
// Scrub overwrites these gaps. The names are those of SQLite's file format.

const (
	scrubPages  = 256     // pages checked between two pauses
	maxScrubbed = 1 << 24 // page numbers from here on can make an overflow page look like a b-tree page

	pendingByte = 1 << 30 // SQLite never uses the page that contains this byte
)

// scrub overwrites the gaps of all pages with zeros.
func (s *Store) scrub(ctx context.Context) error {
	var pages, size int
	err := errors.Join(
		s.reader.db.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages),
		s.reader.db.QueryRowContext(ctx, "PRAGMA page_size").Scan(&size),
	)
	if err != nil {
		return s.readError(ctx, err)
	}
	if pages >= maxScrubbed {
		return fmt.Errorf("the database has %d pages, too many to scrub: copies of deleted rows stay in it until VACUUM", pages)
	}
	for from := 1; from <= pages; from += scrubPages {
		start := time.Now()
		dirty, err := s.unscrubbed(ctx, from, min(from+scrubPages, pages+1), size)
		if err != nil {
			return err
		}
		for len(dirty) > 0 {
			n := min(len(dirty), sliceEvents)
			if err := s.chore(ctx, func(w *writer) error { return w.scrub(dirty[:n]) }); err != nil {
				return err
			}
			dirty = dirty[n:]
		}
		select {
		case <-time.After(s.keeper.pauseFactor * time.Since(start)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// unscrubbed returns the numbers of the pages in [from, to) whose gap is not
// all zeros.
func (s *Store) unscrubbed(ctx context.Context, from, to, size int) ([]int, error) {
	var dirty []int
	for number := from; number < to; number++ {
		if pointerMap(number, size) || number == pendingByte/size+1 {
			continue
		}
		page, err := readPage(s.reader.db.QueryRowContext(ctx, selectPage, number))
		if err != nil {
			return nil, s.readError(ctx, err)
		}
		if !zero(gap(page, number)) {
			dirty = append(dirty, number)
		}
	}
	return dirty, nil
}

// scrub overwrites the gaps of these pages. It reads each page again in the
// transaction, because it may have changed.
func (w *writer) scrub(numbers []int) error {
	ctx := context.Background()
	for _, number := range numbers {
		page, err := readPage(w.conn.QueryRowContext(ctx, selectPage, number))
		if err != nil {
			return err
		}
		free := gap(page, number)
		if zero(free) {
			continue
		}
		clear(free)
		if _, err := w.conn.ExecContext(ctx, "UPDATE sqlite_dbpage SET data = ? WHERE pgno = ?", page, number); err != nil {
			return err
		}
		w.pages++
	}
	return nil
}

const selectPage = "SELECT data FROM sqlite_dbpage WHERE pgno = ?"

// readPage returns the content of a page, or nil if the page no longer exists.
func readPage(row *sql.Row) (page []byte, err error) {
	err = row.Scan(&page)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return page, err
}

// pointerMap reports whether the page with this number is a pointer map.
func pointerMap(number, size int) bool { return number >= 2 && (number-2)%(size/5+1) == 0 }

// gap returns the unallocated bytes of a b-tree page, or nil for any other kind
// of page.
func gap(page []byte, number int) []byte {
	at := 0
	if number == 1 {
		at = 100 // after the file header
	}
	const leafHeader, interiorHeader = 8, 12
	if len(page) < at+interiorHeader {
		return nil
	}
	header := leafHeader
	switch page[at] {
	case 2, 5:
		header = interiorHeader
	case 10, 13:
	default:
		return nil
	}
	cells := int(binary.BigEndian.Uint16(page[at+3:]))
	begin, end := at+header+2*cells, int(binary.BigEndian.Uint16(page[at+5:]))
	if end == 0 {
		end = 1 << 16
	}
	if begin > end || end > len(page) {
		return nil
	}
	for i := range cells {
		if cell := int(binary.BigEndian.Uint16(page[at+header+2*i:])); cell < end || cell >= len(page) {
			return nil
		}
	}
	return page[begin:end]
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
