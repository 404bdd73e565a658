package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// smallDisk returns a directory with a file system of its own of this size.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := ownDir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes)); err != nil {
		t.Skipf("a disk that can be filled needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk fills the file system of dir completely. free makes the space
// available again.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

func wantFull(t *testing.T, what string, err error) {
	t.Helper()
	if runnel.CodeOf(err) != runnel.StoreUnavailable {
		t.Fatalf("%s on a full disk: %v, want %s", what, err, runnel.StoreUnavailable)
	}
	wants(t, runnel.Safe(err).Message, "disk is full")
}

func heldReserve(t *testing.T, dir string) bool {
	t.Helper()
	var st unix.Stat_t
	err := unix.Stat(filepath.Join(dir, "reserve"), &st)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		t.Fatal(err)
	}
	return err == nil && st.Blocks*512 >= reserveBytes
}

// ending returns the events that the session appends when it has to end a turn.
func ending(session string, head int64, turn string) []event.Event {
	bodies := []event.Body{
		event.ApprovalResolved{ApprovalID: "a", Choice: "deny", By: event.ByPolicy},
		event.ItemCancelled{ItemID: turn + ":1:0", Reason: event.ReasonProcessDeath},
		event.ResponseError{Error: event.Fault{Code: string(runnel.StoreUnavailable), Message: "the disk is full"}},
	}
	evs := make([]event.Event, len(bodies))
	for i, b := range bodies {
		evs[i] = event.Event{Session: session, Seq: head + int64(i) + 1, Turn: turn, Body: b}
	}
	return evs
}

// TestFullDiskRefusesAndRecovers fills the disk in the middle of a turn. New
// events are rejected, stored events can be read, and the turn can be ended.
// Once the disk has space again, the store accepts all writes without a
// restart.
func TestFullDiskRefusesAndRecovers(t *testing.T) {
	dir := smallDisk(t, 8<<20)
	s := openTest(t, dir, small)
	if !heldReserve(t, dir) {
		t.Fatal("a new store holds no reserve")
	}
	turn := delta("s", 1).Turn
	head := int64(0)
	add := func() error {
		err := s.Append(t.Context(), "s", head, delta("s", head+1))
		if err == nil {
			head++
		}
		return err
	}
	if err := add(); err != nil {
		t.Fatal(err)
	}
	if err := s.PutSession(t.Context(), fixtureSession); err != nil {
		t.Fatal(err)
	}
	free := fillDisk(t, dir)
	var failed error
	for failed == nil { // until the space that the files already occupy is used up
		if failed = add(); head > 1e5 {
			t.Fatal("the disk is never full")
		}
	}
	checkAll := func() {
		t.Helper()
		if n := count(t, s, "s"); n != int(head) {
			t.Errorf("%d events can be read, want %d", n, head)
		}
		if _, err := s.Session(t.Context(), "s"); err != nil {
			t.Errorf("Session: %v", err)
		}
	}
	wantFull(t, "Append", failed)
	wantFull(t, "Append", add())
	wantFull(t, "PutSession", s.PutSession(t.Context(), fixtureSession))
	checkAll()
	if !heldReserve(t, dir) {
		t.Error("what does not end anything has used the reserve")
	}

	evs := ending("s", head, turn)
	if err := s.Append(t.Context(), "s", head, evs...); err != nil {
		t.Fatalf("the end of a turn on a full disk: %v", err)
	}
	head += int64(len(evs))
	if heldReserve(t, dir) {
		t.Error("the reserve was not needed: the disk is not full")
	}
	if st, err := s.State(t.Context(), "s"); err != nil || len(st.Open) != 0 || st.Head != head {
		t.Errorf("state after the end: %+v, %v", st, err)
	}
	wantFull(t, "Append behind the end", add())
	wantFull(t, "PutSession", s.PutSession(t.Context(), fixtureSession))
	checkAll()
	for i := range 20 { // turns of other sessions can end, too
		session := fmt.Sprint("other", i)
		if err := s.Append(t.Context(), session, 0, ending(session, 0, "t")...); err != nil {
			t.Fatalf("the end of turn %d on a full disk: %v", i, err)
		}
	}

	free()
	if err := add(); err != nil {
		t.Fatalf("Append with space again: %v", err)
	}
	if !heldReserve(t, dir) {
		t.Error("the reserve was not made again")
	}
	checkAll()
	var verdict string
	if err := s.reader.db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity_check: %s, %v", verdict, err)
	}
}

// TestDeletingASessionOnAFullDiskMakesRoom deletes a session on a full disk.
// The deletion succeeds, and other sessions can use its space.
func TestDeletingASessionOnAFullDiskMakesRoom(t *testing.T) {
	dir := smallDisk(t, 8<<20)
	s := openTest(t, dir, small)
	head := int64(0)
	for head < 1500 {
		evs := make([]event.Event, 50)
		for i := range evs {
			evs[i] = delta("old", head+int64(i)+1)
			evs[i].Body = event.ItemDelta{ItemID: "i", DeltaContent: strings.Repeat("x", 1000)}
		}
		if err := s.Append(t.Context(), "old", head, evs...); err != nil {
			t.Fatal(err)
		}
		head += int64(len(evs))
	}
	// Run a checkpoint first. Otherwise the content of the write-ahead log
	// would need space in the database before the deletion can free any.
	inWriter(t, s, func(*sql.Conn) error { s.writer.pages, s.writer.truncate = maxPages, true; return nil })
	inWriter(t, s, func(*sql.Conn) error { return nil })
	free := fillDisk(t, dir)
	wantFull(t, "Append", s.Append(t.Context(), "new", 0, big("new", 1)))
	if err := s.DeleteSession(t.Context(), "old"); err != nil {
		t.Fatalf("DeleteSession on a full disk: %v", err)
	}
	tidy(t, s)
	if err := s.Append(t.Context(), "new", 0, delta("new", 1)); err != nil {
		t.Errorf("Append after a session of %d events was deleted: %v", head, err)
	}
	free()
}

// TestOpenOnAFullDiskUsesTheReserve opens a store on a full disk. With a
// reserve, reading and ending turns work. Without a reserve, Open fails and its
// error tells people to free space.
func TestOpenOnAFullDiskUsesTheReserve(t *testing.T) {
	dir := smallDisk(t, 8<<20)
	s := openTest(t, dir, small)
	if err := s.Append(t.Context(), "s", 0, delta("s", 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	free := fillDisk(t, dir)

	var logged bytes.Buffer
	s, err := open(t.Context(), Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&logged, nil))}, small)
	if err != nil {
		t.Fatalf("Open with a reserve: %v", err)
	}
	defer s.Close()
	wants(t, logged.String(), "full")
	if n := count(t, s, "s"); n != 1 {
		t.Errorf("%d events can be read, want 1", n)
	}
	wantFull(t, "Append", s.Append(t.Context(), "s", 1, delta("s", 2)))
	if err := s.Append(t.Context(), "s", 1, ending("s", 1, delta("s", 1).Turn)...); err != nil {
		t.Errorf("the end of a turn: %v", err)
	}
	fillDisk(t, dir) // also uses up the space that the reserve released
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}

	fillDisk(t, dir)
	message := refused(t, dir)
	wants(t, message, dir, "disk is full", "free some space")
	free()
	s = openTest(t, dir, small)
	if n := count(t, s, "s"); n != 4 || !heldReserve(t, dir) {
		t.Errorf("with space again: %d events, want 4; reserve held: %v", n, heldReserve(t, dir))
	}
}

// TestNewStoreOnAFullDiskIsRefused creates a store on a full disk.
func TestNewStoreOnAFullDiskIsRefused(t *testing.T) {
	disk := smallDisk(t, 1<<20)
	dir := filepath.Join(disk, "data")
	free := fillDisk(t, disk)
	wants(t, refused(t, dir), dir, "full")
	free()
	openTest(t, dir, small)
}

// TestReserveOccupiesDiskSpace starts with a sparse reserve file, as some
// backup programs restore it. The store replaces it with one that occupies
// space.
func TestReserveOccupiesDiskSpace(t *testing.T) {
	dir := ownDir(t)
	path := filepath.Join(dir, "reserve")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, reserveBytes); err != nil {
		t.Fatal(err)
	}
	if heldReserve(t, dir) {
		t.Skip("this file system has no sparse files")
	}
	openTest(t, dir, small)
	if !heldReserve(t, dir) {
		t.Error("a sparse reserve was taken for one")
	}
}
