package turnview

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/livescreen"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/provider/script"
)

var update = flag.Bool("update", false, "write the views of this run into testdata")

// step is the time between two events of a test.
const step = 400 * time.Millisecond

// play returns the events of a scripted turn, with times of a fixed clock.
// approve answers its approvals.
func play(t *testing.T, prompt string, approve runnel.Approver) (evs []event.Event) {
	t.Helper()
	r, err := runnel.Start(t.Context(), script.New(), runnel.Options{Config: runnel.Values{"pace": "fast"}, Approve: approve}, runnel.Text(prompt))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for ev, err := range r.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ev.At = at
		at = at.Add(step)
		evs = append(evs, ev)
	}
	return evs
}

// by answers approvals with the choices of these kinds, in this order.
func by(kinds ...event.ChoiceKind) runnel.Approver {
	return func(_ context.Context, a event.Approval) runnel.Decision {
		kind := kinds[0]
		if len(kinds) > 1 {
			kinds = kinds[1:]
		}
		for _, c := range a.Choices {
			if c.Kind == kind {
				return runnel.Decision{Choice: c.ID, By: event.ByUser}
			}
		}
		return runnel.Decision{Choice: event.ChoiceWithdrawn}
	}
}

// printed returns everything that a view prints for a width. With live, it also
// returns each different picture of the live lines.
func printed(evs []event.Event, cfg Config, width int, live bool) string {
	v := New(cfg)
	var out bytes.Buffer
	picture := ""
	for _, ev := range evs {
		v.Apply(ev, ev.At)
		done, below := v.Frame(width, 24, ev.At.Truncate(SpinnerTime*6)) // always the same picture of the spinner
		show(&out, "", done)
		var b bytes.Buffer
		show(&b, "~ ", below)
		if live && b.String() != picture {
			picture = b.String()
			out.WriteString(picture)
		}
	}
	return out.String()
}

func show(out *bytes.Buffer, prefix string, lines []livescreen.Line) {
	for _, l := range lines {
		fmt.Fprintln(out, strings.TrimRight(prefix+l.String(), " "))
	}
}

// Each file in testdata has a script, and what a person sees of it.
func TestViews(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no files")
	}
	answers := map[string]runnel.Approver{"allow": by(event.ChoiceAllowOnce), "deny": by(event.ChoiceDeny)}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var evs []event.Event
			cfg := Config{Styled: true, Dir: "/home/you/app", Hint: "Ctrl-C cancels"}
			for i, f := range a.Files {
				got := ""
				switch what, rest, _ := strings.Cut(f.Name, " "); what {
				case "script":
					evs = play(t, string(f.Data), answers[rest])
					continue
				case "done", "live":
					width := 0
					if _, err := fmt.Sscan(rest, &width); err != nil {
						t.Fatal(err)
					}
					got = printed(evs, cfg, width, what == "live")
				case "verbose":
					cfg := cfg
					cfg.Verbose, cfg.Prompts, cfg.Styled = true, true, false
					got = printed(evs, cfg, 80, false)
				default:
					t.Fatalf("unknown section %q", f.Name)
				}
				if diff := cmp.Diff(string(f.Data), got); diff != "" && !*update {
					t.Errorf("%s: -want +got\n%s", f.Name, diff)
				}
				a.Files[i].Data = []byte(got)
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// recorded returns the events of every recording of real agents, by file.
func recorded(t *testing.T) map[string][]event.Event {
	t.Helper()
	files, err := filepath.Glob("../../provider/*/testdata/*.txtar")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	out := make(map[string][]event.Event)
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
		for _, f := range a.Files {
			if f.Name != "want" {
				continue
			}
			for line := range strings.Lines(string(f.Data)) {
				turn, body, ok := strings.Cut(line, " ")
				b, err := event.UnmarshalBody([]byte(body))
				if !ok || err != nil {
					continue // a comment, or a marker of the recording
				}
				if turn == "-" {
					turn = ""
				}
				out[file] = append(out[file], event.Event{Turn: turn, At: at, Body: b})
				at = at.Add(step)
			}
		}
	}
	return out
}

// A view of any conversation is safe to print, its live lines fit on the
// terminal, and nothing is live once the last turn has ended.
func TestViewsOfRealConversations(t *testing.T) {
	n := 0
	for file, evs := range recorded(t) {
		for _, size := range [][2]int{{100, 30}, {40, 10}, {8, 3}} {
			v := New(Config{Styled: true, Verbose: size[0] == 100, Prompts: true})
			var live []livescreen.Line
			for _, ev := range evs {
				v.Apply(ev, ev.At)
				var done []livescreen.Line
				done, live = v.Frame(size[0], size[1], ev.At)
				for _, l := range append(done, live...) {
					text := l.String()
					if termtext.Clean(text) != text || strings.IndexFunc(text, unicode.IsControl) >= 0 {
						t.Fatalf("%s: unsafe line %q", file, text)
					}
				}
				if len(live) > max(size[1]+8, 12) {
					t.Errorf("%s: %d live lines on a terminal with %d", file, len(live), size[1])
				}
				n += len(done)
			}
			if !v.Open() && len(live) > 0 {
				t.Errorf("%s: after the last turn, these lines are live: %v", file, live)
			}
		}
	}
	if n < 1000 {
		t.Errorf("only %d lines", n)
	}
}

// A frame shows the end of a line that never ends, and wraps no more than that.
func TestUnfinishedLineIsShownFromItsEnd(t *testing.T) {
	p := prose{text: strings.Repeat("é", maxTail) + "the end"}
	lines := p.tail(80)
	if last := lines[len(lines)-1].String(); !strings.HasSuffix(last, "the end") || len(lines) > maxTail/80 {
		t.Errorf("%d lines, the last one is %q", len(lines), last)
	}
	if first := lines[0].String(); strings.Trim(first, "é") != "" {
		t.Errorf("the first line is %q", first)
	}
}
