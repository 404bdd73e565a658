//go:build unix

package conformance

import (
	"bufio"
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/runnel-dev/runnel/internal/testprogram"
)

var _ = register(39, storage)

// storage returns the table of what the server stores and what survives a
// crash.
func storage() table {
	var c crash
	var k compaction
	var r restored
	var d damage
	var b blackout
	tab := table{
		name: "storage", title: "Storage and recovery", file: "storage_test.go",
		intro: "What is kept, and what survives a crash, a full disk and an upgrade. The checks kill, restart, back up and restore the built server, and change its database. " +
			"Loss of power, errors of the disk and every moment of a crash need a disk of their own or minutes, so those rows link the tests that do it.",
		head: []string{"promise", "condition"},
		setup: func(t *testing.T) {
			c.kill(t)
			k.compact(t)
			r.restore(t)
			d.damage(t)
			b.cut(t)
		},
	}
	add := func(promise, condition string, check func(t *testing.T)) {
		tab.rows = append(tab.rows, row{cells: []string{promise, condition}, check: check})
	}
	link := func(promise, condition, test string) {
		tab.rows = append(tab.rows, row{cells: []string{promise, condition}, test: test})
	}
	link("nobody reads an event that is not in the log", "random schedules of sessions, clients and failures", "test/sim.TestRandomSchedulesKeepTheInvariants")
	link("the simulation that shows it finds mistakes", "mistakes are put into the core", "test/sim.TestSimulationFindsSeededBugs")
	add("nothing that a client read is lost", "the server is killed with SIGKILL while clients read running turns", c.keepsWhatWasRead)
	link("one order explains what all clients were told", "several clients act at the same time", "test/sim.TestAnswersToUsersAreLinearizable")
	link("events are kept in order and without holes; an append that is not at the end of the log is refused", "every store", "store/sqlite.TestLog")
	link("an append of a writer that lags is refused", "many writers at the same time", "store/sqlite.TestConflictAmongOthers")
	add("a second server on the same data directory is refused", "the first one runs, and goes on", refusesSecondServer)
	link("what was acknowledged survives", "the process is killed while it appends", "store/sqlite.TestKillWhileAppendingLosesNothingAcknowledged")
	link("what was decided survives", "loss of power", "store/sqlite.TestPowerLossLosesNothingDecided")
	add("a running turn goes on: same turn, same items, then its end", "the server is killed and starts again while the supervisor holds the agent (Linux)", goesOn((*testprogram.Server).Kill))
	add("a running turn goes on: same turn, same items, then its end", "the server is stopped with SIGTERM and starts again (Linux)", goesOn((*testprogram.Server).Stop))
	link("a running turn goes on with every agent", "the server is killed in each phase of a turn", "test/kill.TestTurnsOfEveryAgentContinueAfterAKill")
	link("a running turn goes on", "the server is replaced by a new version", "test/kill.TestUpgradeUnderRunningTurns")
	add("a turn whose agent is gone ends as `PROCESS_CRASH`, and its open items as `process_death`", "the server restarts without the agent", c.closesItems)
	add("a turn whose agent is gone ends as `PROCESS_CRASH`, and its open approvals as withdrawn", "the server restarts without the agent", c.closesApprovals)
	link("a turn whose agent is gone ends as `PROCESS_CRASH`", "the supervisor is killed", "test/kill.TestKilledSupervisorClosesItsTurn")
	add("no process of an agent is left over", "the server is killed, and nobody takes the turn over in time", c.leavesNoProcess)
	link("no process of an agent is left over", "server and supervisor are killed", "test/kill.TestKilledServerAndSupervisorsLeaveNothing")
	add("the next prompt resumes the conversation through the agent's own resume", "the server was restarted without the agent", c.resumes)
	add("queued prompts survive, and run with the `turnId` that they were given", "the server is killed", c.keepsQueue)
	add("a held queue stays held, until somebody continues it", "the server is killed after a turn was cancelled", c.keepsHeldQueue)
	add("an upload that broke off leaves nothing, and complete uploads stay", "the server is killed while the upload arrives, and starts again", removesPartOfUpload)
	link("a full disk is `STORE_UNAVAILABLE`, never a silent gap", "the disk is full while turns run", "test/kill.TestFullDiskDuringRealTurnsLosesNothing")
	link("deleting sessions makes room", "the disk is full", "store/sqlite.TestDeletingASessionOnAFullDiskMakesRoom")
	link("a store that fails is `STORE_UNAVAILABLE`", "errors of the disk", "store/sqlite.TestFailingSystemCallsLoseNothingAcknowledged")
	link("a log that broke is never a gap", "an append fails", "..TestFailedAppendLeavesNoGap")
	add("damage is found: what comes before it is read, then the stream ends as `STORE_UNAVAILABLE`", "an event is missing in the database", d.isFound)
	link("damage is found, and nothing damaged is read", "bytes of the database change", "store/sqlite.TestFlippedBitsOfTheDatabaseAreReported")
	add("compaction removes the deltas of finished items and nothing else", "after a turn", func(t *testing.T) {
		equalFrames(t, k.after, withoutFinishedDeltas(k.before))
	})
	add("a jump in `seq` is no loss: a client that resumes anywhere gets `ok` and everything that is left", "a client reads a compacted log", func(t *testing.T) {
		for after := range len(k.before) {
			status, got := k.resumed(t, k.session, after)
			equal(t, fmt.Sprintf("status after %d", after), status, "ok")
			equalFrames(t, got, from(k.after, after))
		}
	})
	add("`resume` is `ok` up to the end of the log and `reset` beyond, and never `gap`: a log loses nothing but deltas of finished items, "+
		"whose text `item_done` has, and damage ends the stream with an error", "every position, in a compacted, a restored and a damaged log", func(t *testing.T) {
		neverGap(t, &k.server, k.session)
		neverGap(t, &r.server, r.session)
		neverGap(t, &d.server, d.session)
	})
	link("older schemas migrate forward", "a database of an older version", "store/sqlite.TestSchemaUpgrade")
	add("an unknown newer schema is refused, and the database stays as it is", "a database of a newer version", refusesNewerSchema)
	add("a deleted session leaves no bytes", "a session is deleted, also while a turn runs, a prompt waits and an upload is attached", deletesEveryByte)
	link("a deletion is whole or not at all", "the store fails, or the server ends after it deleted the record", "gateway.TestFailedDeletionLeavesTheSession")
	add("a chosen title and the archive survive", "the server is killed", keepsTitleAndArchive)
	add("a backup of a running server has everything that was read before", "a turn runs", func(t *testing.T) {
		after := r.events(t, r.session, frame.ends)
		equalFrames(t, after[1:len(r.seen)], r.seen[1:])
		equal(t, "end of the turn", at(after[len(after)-1].payload(), "error", "code"), "PROCESS_CRASH")
	})
	link("a backup of a running server is whole", "at every moment while it writes", "store/sqlite.TestBackupWhileWritingHoldsEverythingAcknowledged")
	add("a position of another log is `reset`, with everything again", "a backup was restored, and the client gives the `logId` of its position", func(t *testing.T) {
		first := resumes(t, r.client, r.session, fmt.Sprintf("?after=3&logId=%s", at(r.seen[0].data, "resume", "logId")), "reset", 1)
		equal(t, "reason", at(first.data, "resume", "reason"), "the position belongs to another log: the server's data was restored from a backup, or a power loss removed its newest events")
	})
	add("a position of a log that may have lost its newest events is `reset`, with everything again", "the power failed: the server was killed, and the system was started again", func(t *testing.T) {
		first := resumes(t, b.client, b.session, fmt.Sprintf("?after=3&logId=%s", b.logID), "reset", 1)
		equal(t, "reason", at(first.data, "resume", "reason"), "the position belongs to another log: the server's data was restored from a backup, or a power loss removed its newest events")
		neverGap(t, &b.server, b.session)
	})
	link("a clock that jumps changes no order", "the clock jumps back", "store/sqlite.TestOrderAndTimesSurviveClockJumps")
	add("the data directory and every file in it are the user's alone", "the server makes the directory", makesDirectoryPrivate)
	add("a data directory that others can use is refused, with the command that mends it", "its mode is 0755", refusesOpenDirectory)
	return tab
}

// equalFrames reports an error unless the frames are the same.
func equalFrames(t *testing.T, got, want frames) {
	t.Helper()
	if got.names() != want.names() {
		t.Fatalf("got %s, want %s", got.names(), want.names())
	}
	for i := range got {
		equal(t, "event", got[i].data, want[i].data)
	}
}

// from returns the events after position at.
func from(all frames, at int) frames {
	return slices.DeleteFunc(slices.Clone(all), func(f frame) bool { return f.seq() <= at })
}

// seq returns the position of an event.
func (f frame) seq() int {
	n, _ := f.data["seq"].(float64)
	return int(n)
}

// resumed resumes a stream after a position. It returns the status in the first
// frame, and the events up to the end of a turn or of the stream.
func (s *server) resumed(t *testing.T, session string, after int) (status any, got frames) {
	t.Helper()
	first, stream := opened(t, s.client, session, fmt.Sprintf("?after=%d", after))
	defer stream.close()
	for f, ok := stream.next(t); ok; f, ok = stream.next(t) {
		if got = append(got, f); f.ends() || f.event == "stream:end" {
			break
		}
	}
	return at(first.data, "resume", "status"), got
}

// neverGap resumes after every position of a session's log, and after some
// positions beyond its end.
func neverGap(t *testing.T, s *server, session string) {
	t.Helper()
	head := int(s.get(t, "/api/session/"+session+"/status").ok(t, http.StatusOK)["lastSeq"].(float64))
	for after := range head + 3 {
		first, stream := opened(t, s.client, session, fmt.Sprintf("?after=%d", after))
		stream.close()
		want := "ok"
		if after > head {
			want = "reset"
		}
		equal(t, fmt.Sprintf("status after %d of %d", after, head), at(first.data, "resume", "status"), want)
	}
}

// refused starts a server that must refuse to start, and returns its stderr.
func (s *server) refused(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testprogram.Path(t), "serve", "--listen", "127.0.0.1:0", "--data", s.Data)
	cmd.Env = s.Env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the server started: %s", line)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatalf("the server ended without an error: %s", stderr.String())
	}
	return stderr.String()
}

// another returns a server with the home, the project and the arguments of s.
// It is not started.
func (s *server) another(data string) *server {
	next := &server{project: s.project}
	next.Home, next.Env, next.Args, next.Data = s.Home, s.Env, s.Args, data
	return next
}

// database runs a statement on the database of a stopped server.
func (s *server) database(t *testing.T, change string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.Data, "runnel.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := db.ExecContext(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}

func refusesSecondServer(t *testing.T) {
	var s server
	s.start(t)
	if text := s.refused(t); !strings.Contains(text, "another runnel server") || !strings.Contains(text, fmt.Sprintf("process %d", s.PID)) {
		t.Errorf("got %s", text)
	}
	finished(t, &s)
}

func refusesNewerSchema(t *testing.T) {
	var s server
	s.start(t)
	finished(t, &s)
	s.Stop()
	s.database(t, "PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)")
	file := filepath.Join(s.Data, "runnel.db")
	before := read(t, file)
	if text := s.refused(t); !strings.Contains(text, "schema version 99") {
		t.Errorf("got %s", text)
	}
	if !bytes.Equal(read(t, file), before) {
		t.Error("the database changed")
	}
}

// A blackout is a server after a simulated power loss.
type blackout struct {
	server
	session string
	logID   any // before the power loss
}

// cut kills a server and changes the boot that its database names, as if the
// system had been started again.
func (b *blackout) cut(t *testing.T) {
	t.Helper()
	var s server
	s.start(t)
	b.session, _ = finished(t, &s)
	b.logID = at(s.events(t, b.session, frame.ends)[0].data, "resume", "logId")
	s.Kill()
	s.database(t, "UPDATE identity SET boot = 'an earlier boot'")
	b.server = *s.another(s.Data)
	b.start(t)
}

// A damage is a server with a session whose log has lost the event after
// position 3.
type damage struct {
	server
	session string
	before  frames // the complete log before the damage, with the first frame of the stream
}

func (d *damage) damage(t *testing.T) {
	t.Helper()
	var s server
	s.start(t)
	d.session, _ = finished(t, &s)
	d.before = s.events(t, d.session, frame.ends)
	s.Stop()
	s.database(t, "DELETE FROM events WHERE seq = 4")
	d.server = *s.another(s.Data)
	d.start(t)
}

func (d *damage) isFound(t *testing.T) {
	_, got := d.resumed(t, d.session, 0)
	equalFrames(t, got[:len(got)-1], d.before[1:4])
	end := got[len(got)-1]
	equal(t, "end", []any{end.event, end.data["reason"], at(end.data, "error", "type")}, []any{"stream:end", "error", "STORE_UNAVAILABLE"})
}

// A compaction is a server with a session whose only turn was compacted.
type compaction struct {
	server
	session       string
	before, after frames // the log without the first frame of the stream
}

func (k *compaction) compact(t *testing.T) {
	t.Helper()
	var s server
	s.Args = []string{"--compact-after", "-1s"}
	s.start(t)
	k.session = s.session(t, nil)
	s.send(t, k.session, script(
		object{"reasoning": "one two three"}, object{"text": "one two three four"}, object{"tool": object{"name": "Bash", "output": "ok"}},
		object{"text": "half a sentence", "error": object{"code": "AGENT_ERROR", "message": "cut off"}}, object{"text": "open words for ever", "rate": 50},
	))
	stopped := false
	k.before = s.events(t, k.session, func(f frame) bool {
		if d, _ := f.payload()["deltaContent"].(string); strings.HasPrefix(d, "open") && !stopped {
			stopped = true
			s.post(t, "/api/session/"+k.session+"/cancel", object{}).ok(t, http.StatusOK)
		}
		return f.ends()
	})[1:]
	s.Stop()
	k.server = *s.another(s.Data)
	k.Args = []string{"--compact-after", "0s"}
	k.start(t)
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); {
		if k.after = k.events(t, k.session, frame.ends)[1:]; len(k.after) < len(k.before) {
			return
		}
	}
	t.Fatal("nothing was compacted")
}

// withoutFinishedDeltas returns the events without the deltas of finished
// items.
func withoutFinishedDeltas(all frames) frames {
	done := make(map[any]bool)
	for _, f := range all {
		done[f.payload()["itemId"]] = done[f.payload()["itemId"]] || f.event == "item_done"
	}
	return slices.DeleteFunc(slices.Clone(all), func(f frame) bool { return f.event == "item_delta" && done[f.payload()["itemId"]] })
}

// A restored is a server that runs on a copy of another server's database. The
// copy was made during a turn.
type restored struct {
	server
	session string
	seen    frames // events that a client had read before, with the first frame of the stream
}

func (r *restored) restore(t *testing.T) {
	t.Helper()
	var s server
	s.start(t)
	r.session = s.session(t, nil)
	s.send(t, r.session, script(object{"text": "word ", "repeat": 20}, object{"hang": true}))
	r.seen = s.events(t, r.session, func(f frame) bool { return at(f.payload(), "finalItem", "origin") == "agent" })
	data := filepath.Join(folder(t), "restored")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Command(t, "backup", filepath.Join(data, "runnel.db"))
	r.server = *s.another(data)
	r.start(t)
}

func deletesEveryByte(t *testing.T) {
	var s server
	s.start(t)
	const mark = "a-word-that-nobody-else-writes"
	session := s.session(t, nil)
	s.play(t, session, object{"text": mark}, object{"tool": object{"name": "Bash", "output": mark}})
	if len(filesWith(t, s.Data, mark)) == 0 {
		t.Fatal("no file has the text before the session is deleted")
	}
	s.do(t, http.MethodDelete, "/api/harness/session/"+session, nil).ok(t, http.StatusOK)

	running, _ := s.running(t)
	s.post(t, "/api/session/"+running+"/rename", object{"title": mark}).ok(t, http.StatusOK)
	upload := s.with("Content-Type", "application/octet-stream").post(t, "/api/uploads?name=a.txt", mark).ok(t, http.StatusCreated)
	s.post(t, "/api/session/"+running+"/send", object{"content": mark, "attachments": []object{{"uploadId": upload["uploadId"]}}, "queue": true}).ok(t, http.StatusAccepted)
	freed := s.do(t, http.MethodDelete, "/api/session/"+running, nil).ok(t, http.StatusOK)
	equal(t, "what was deleted", []any{freed["uploads"], freed["queued"]}, []any{1, 1})
	s.Stop()
	if files := filesWith(t, s.Data, mark); len(files) > 0 {
		t.Errorf("these files have the text: %v", files)
	}
}

// filesWith returns the regular files below dir that contain the text.
func filesWith(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	walk(t, dir, func(path string, info fs.FileInfo) {
		if info.Mode().IsRegular() && bytes.Contains(read(t, path), []byte(text)) {
			found = append(found, path)
		}
	})
	return found
}

func makesDirectoryPrivate(t *testing.T) {
	var s server
	s.start(t)
	finished(t, &s)
	walk(t, s.Data, func(path string, info fs.FileInfo) {
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
	})
}

func refusesOpenDirectory(t *testing.T) {
	s := server{}
	s.Data, s.Env = filepath.Join(folder(t), "data"), []string{"HOME=" + folder(t), "PATH=/usr/bin:/bin"}
	if err := errors.Join(os.Mkdir(s.Data, 0o755), os.Chmod(s.Data, 0o755)); err != nil {
		t.Fatal(err)
	}
	if text := s.refused(t); !strings.Contains(text, "can be used by others (mode 0755)") || !strings.Contains(text, "chmod 700 "+s.Data) {
		t.Errorf("got %s", text)
	}
}

// walk calls f with dir and everything below it.
func walk(t *testing.T, dir string, f func(path string, info fs.FileInfo)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			f(path, info)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// read returns the content of a file.
func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
