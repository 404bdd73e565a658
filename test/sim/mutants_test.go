package sim

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the module's directory.
const root = "../.."

// A mutant is the program with one seeded mistake. It tests this simulation,
// which must find the mistake.
type mutant struct {
	name    string
	file    string // the changed file: of the engine, or the disk for a mistake of a log
	patches [][2]string
}

const disks = "test/sim/disk_test.go"

var mutants = []mutant{
	{"publish before sync", disks, [][2]string{{
		"	if slices.ContainsFunc(evs, func(ev event.Event) bool { return event.Decides(ev.Body) }) {\n",
		"	_ = d.show(l.gen)\n	if slices.ContainsFunc(evs, func(ev event.Event) bool { return event.Decides(ev.Body) }) {\n",
	}}},
	{"off-by-one cursor", "cursor.go", [][2]string{{"		c.at = ev.Seq\n", "		c.at = ev.Seq + 1\n"}}},
	{"lost wake-up", disks, [][2]string{{
		"	d.visible = len(d.events)\n	close(d.grown)\n	d.grown = make(chan struct{})\n	return nil\n",
		"	close(d.grown)\n	d.grown = make(chan struct{})\n	d.mu.Unlock()\n	time.Sleep(time.Microsecond)\n	d.mu.Lock()\n	d.visible = len(d.events)\n	return nil\n",
	}}},
	{"double terminal", "rules.go", [][2]string{{"	if r.ended {\n		r.dropped++\n", "	if false {\n		r.dropped++\n"}}},
	{"ack before append", "approvals.go", [][2]string{{
		"	if err := s.flush(); err != nil {\n		return err\n	}\n	lt.lastEventAt = now\n", "	defer s.flush()\n	lt.lastEventAt = now\n",
	}}},
	{"coalesced terminal", "upsert/pacer.go", [][2]string{{
		"		case Upsert:\n",
		"		case TurnEvent:\n			if _, again := latest[\"turn\"]; again {\n				continue\n			}\n			latest[\"turn\"] = kept - 1\n		case Upsert:\n",
	}}},
	{"lock leak", "record.go", [][2]string{{"	s.live = slices.Delete(s.live, i, i+1)\n", "	if !lt.rules.cancelling {\n		s.live = slices.Delete(s.live, i, i+1)\n	}\n"}}},
	{"stale approval accepted", "approvals.go", [][2]string{{
		"	if d.ArgumentsDigest != \"\" && d.ArgumentsDigest != a.ArgumentsDigest {\n", "	if false {\n",
	}}},
	{"renumber on filter", "turn.go", [][2]string{{
		"			if !yield(ev, nil) || event.Ends(ev.Body) {\n", "			if ev.Seq -= t.after; !yield(ev, nil) || event.Ends(ev.Body) {\n",
	}}},
	{"retry of a failed sync", disks, [][2]string{{"		d.events, d.visible = d.events[:head:head], min(d.visible, int(head))\n		return errSync\n", "		return nil\n"}}},
	{"generation ignored", disks, [][2]string{
		{"	if gen != d.gen || head != int64(len(d.events)) {\n", "	if head != int64(len(d.events)) {\n"},
		{"	if gen != d.gen {\n", "	if false {\n"},
	}},
	{"drop on overflow", "link.go", [][2]string{{
		"		case l.ahead <- arrival{ev, err}:\n		case <-l.quit:\n			return\n		}\n", "		case l.ahead <- arrival{ev, err}:\n		case <-l.quit:\n			return\n		default:\n		}\n",
	}}},

	{"log opened without sync", disks, [][2]string{{"	d.synced, d.visible = len(d.events), len(d.events)\n", "	d.visible = len(d.events)\n"}}},
	{"adopted deltas told twice", "adopt.go", [][2]string{{"		n := min(a.deltas[b.ItemID], len(b.DeltaContent))\n", "		n := 0\n"}}},
	{"adopted agent prompted twice", "adopt.go", [][2]string{{
		"		if lt.rules.started || slices.Contains(back.Prompts, lt.rules.turn) {\n", "		if lt.rules.started {\n",
	}}},
	{"two users decide", "rules.go", [][2]string{{
		"		r.asked = slices.Delete(r.asked, i, i+1)\n		r.settled[b.ApprovalID] = true\n",
		"		if b.By != event.ByUser || r.settled[b.ApprovalID] {\n			r.asked = slices.Delete(r.asked, i, i+1)\n		}\n		r.settled[b.ApprovalID] = true\n",
	}}},
	{"two turns at a time", "actor.go", [][2]string{{"	if len(s.live) > 0 {\n		return &Error{Code: TurnInProgress", "	if len(s.live) > 1 {\n		return &Error{Code: TurnInProgress"}}},
}

// mutantRuns is how many seeds run before a mutant counts as not found.
const mutantRuns = "4000"

// TestSimulationFindsSeededBugs builds the simulation with each mistake. The
// simulation must fail. Without RUNNEL_LONG only every twelfth mistake runs.
func TestSimulationFindsSeededBugs(t *testing.T) {
	if testing.Short() || slower > 1 { // a build without the race detector finds the same
		t.Skip("builds the program once for each mistake")
	}
	for i, m := range mutants {
		if i%12 != 0 && !long() {
			continue
		}
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			t.Log(m.found(t))
		})
	}
}

func TestSeededBugsMatchTheSource(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) { m.source(t) })
	}
}

var (
	evidence = regexp.MustCompile(`(?m)(seed \d+), plan.*\n\s*(\S.*)`)
	broken   = regexp.MustCompile(`(?m)^\s*(rules\.go.*|panic: .*)$`) // a broken rule of turns, or a panic
)

// found runs the simulation with the mutant and returns its first finding. It
// fails the test if the simulation finds nothing.
func (m mutant) found(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file, text := m.source(t)
	patched := filepath.Join(dir, filepath.Base(m.file))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: patched}})
	if err != nil {
		t.Fatal(err)
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test")
	for name, data := range map[string][]byte{patched: []byte(text), list: overlay} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", list, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("the mutant does not compile: %v\n%s", err, out)
	}
	var out []byte
	for _, tests := range []string{"^(TestRandomSchedulesKeepTheInvariants|TestReconnectingClientsMissNothing)$", "^TestAnswersToUsersAreLinearizable$"} { // the slowest last
		out, err = exec.CommandContext(t.Context(), binary, "-test.run", tests, "-test.failfast", "-test.timeout", "5m", "-sim.runs", mutantRuns).CombinedOutput()
		if err != nil {
			break
		}
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() < 0 {
		t.Fatalf("the simulation does not find the mistake (%v):\n%.2000s", err, out)
	}
	if e := broken.FindSubmatch(out); e != nil {
		return string(e[1])
	}
	if e := evidence.FindSubmatch(out); e != nil {
		return string(e[1]) + ": " + string(e[2])
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return first
}

// source returns the absolute path of the file and its text with the mistake.
func (m mutant) source(t *testing.T) (file, text string) {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = string(src)
	for _, p := range m.patches {
		if !strings.Contains(text, p[0]) {
			t.Fatalf("%s no longer has the lines that the mutant changes:\n%s", m.file, p[0])
		}
		text = strings.ReplaceAll(text, p[0], p[1])
	}
	return file, text
}
