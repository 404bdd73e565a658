package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/provider/all"
	"github.com/runnel-dev/runnel/store/memory"
)

// A transcript is a recorded conversation file of an agent. A test may change
// its lines.
type transcript struct {
	rel   string // path below the agent's folder of projects
	lines []string
	more  map[string][]string // lines of further files
}

func recordedTranscript(t *testing.T, recording string) *transcript {
	t.Helper()
	a, err := txtar.ParseFile("../../provider/claude/testdata/" + recording + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		if rel, ok := strings.CutPrefix(f.Name, "stored/"); ok {
			return &transcript{rel: rel, lines: slices.Collect(strings.Lines(string(f.Data)))}
		}
	}
	t.Fatal("nothing stored")
	return nil
}

// prompt returns the line of the first prompt.
func (tr *transcript) prompt(t *testing.T) *string {
	t.Helper()
	for i, l := range tr.lines {
		if strings.Contains(l, `"role":"user"`) && strings.Contains(l, `"type":"user"`) {
			return &tr.lines[i]
		}
	}
	t.Fatal("no prompt")
	return nil
}

// shownBodies returns the bodies of a conversation's events.
func shownBodies(t *testing.T, evs []event.Event) (out []string) {
	t.Helper()
	for _, ev := range evs {
		body, err := event.MarshalBody(ev.Body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(body))
	}
	return out
}

// age makes a file look as if it was written an hour ago, so that its
// conversation does not count as in use.
func age(t *testing.T, path string) {
	t.Helper()
	at := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// shows writes the transcript where the agent stores it, and returns what
// `runnel translate --history` prints for it. It checks that a server that
// loads it logs the same.
func (tr *transcript) shows(t *testing.T) []string {
	t.Helper()
	config := t.TempDir()
	t.Setenv("CLAUDE_CONFIG_DIR", config)
	files := map[string][]string{tr.rel: tr.lines}
	maps.Copy(files, tr.more)
	for rel, lines := range files {
		path := filepath.Join(config, "projects", filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		age(t, path)
	}
	path := filepath.Join(config, "projects", filepath.FromSlash(tr.rel))
	out, errOut, code := callRunnel(nil, "translate", "--agent", "claude-code", "--history", path)
	if code != exitOK || errOut != "" {
		t.Fatalf("translate: exit %d: %s", code, errOut)
	}
	checkEvents(t, out)
	var printed []event.Event
	for line := range strings.Lines(out) {
		var ev event.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		printed = append(printed, ev)
	}
	want := shownBodies(t, printed)
	if d := cmp.Diff(want, shownBodies(t, tr.loaded(t))); d != "" {
		t.Errorf("the server's load is not what translate prints (-translate +load):\n%s", d)
	}
	return want
}

// loaded returns the events that a server logs when it loads the conversation.
func (tr *transcript) loaded(t *testing.T) (evs []event.Event) {
	t.Helper()
	log := new(runnel.Memory)
	g, err := gateway.Open(t.Context(), gateway.Config{Log: log, Catalogue: memory.New(log), Providers: all.Providers()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(t.Context())
	st, err := g.Load(t.Context(), "claude-code:"+strings.TrimSuffix(filepath.Base(tr.rel), ".jsonl"), "")
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range log.Read(t.Context(), st.SessionID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	return evs
}

// A prompt with 17 MiB of documents is a single line of the file.
func TestHistoryHasPromptsOfAnySize(t *testing.T) {
	testload.TakesLong(t)
	for _, recording := range []string{"text@2.1.197", "text@2.1.330"} {
		t.Run(recording, func(t *testing.T) {
			want := recordedTranscript(t, recording).shows(t)
			tr := recordedTranscript(t, recording)
			l := tr.prompt(t)
			var e map[string]json.RawMessage
			if err := json.Unmarshal([]byte(*l), &e); err != nil {
				t.Fatal(err)
			}
			var m struct {
				Role    string `json:"role"`
				Content any    `json:"content"`
			}
			if err := json.Unmarshal(e["message"], &m); err != nil {
				t.Fatal(err)
			}
			doc := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("%PDF-1.7\n"), 17<<20/2/9))
			block := func(title string) any {
				return map[string]any{"type": "document", "title": title, "source": map[string]string{"type": "base64", "media_type": "application/pdf", "data": doc}}
			}
			m.Content = []any{block("a.pdf"), block("b.pdf"), map[string]any{"type": "text", "text": m.Content}}
			data, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			e["message"] = data
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if *l = string(line) + "\n"; len(*l) < 23_700_000 {
				t.Fatalf("the line has only %d bytes", len(*l))
			}
			got := tr.shows(t)
			at := -1
			for i := range got {
				if strings.Contains(got[i], `"attachments"`) {
					at = i
				}
			}
			if at < 0 || strings.Count(got[at], `"size":8912889`) != 2 || !strings.Contains(got[at], `"a.pdf"`) {
				t.Fatalf("the prompt is not shown with its documents: %.500s", strings.Join(got, "\n"))
			}
			got[at] = want[at]
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("-small +large prompt:\n%s", d)
			}
		})
	}
}

// The test makes each line of a transcript unreadable, one at a time. A notice
// replaces that line, and the rest of the conversation stays.
func TestOneUnreadableLineLeavesTheRestOfAHistory(t *testing.T) {
	for _, recording := range []string{"text@2.1.197", "text@2.1.330"} {
		t.Run(recording, func(t *testing.T) {
			const first, second = "Grüße, 世界 🙂, and a good day to you.", "Second turn."
			whole := recordedTranscript(t, recording)
			for i, l := range whole.lines {
				tr := recordedTranscript(t, recording)
				tr.lines[i] = strings.Replace(l, `"`, ``, 1)
				got := strings.Join(tr.shows(t), "\n")
				for _, text := range []string{first, second} {
					if !strings.Contains(l, text) && strings.Count(got, text) == 0 {
						t.Errorf("without line %d, %q is lost:\n%s", i+1, text, got)
					}
				}
				if want := fmt.Sprintf("Line %d of the conversation's file (%d bytes) cannot be read", i+1, len(l)-2); strings.Count(got, "UNDECODABLE_LINE") != 1 || !strings.Contains(got, want) {
					t.Errorf("no notice %q:\n%s", want, got)
				}
			}
		})
	}
}

// unchanged changes a transcript and fails the test if it is not shown as
// before.
func unchanged(t *testing.T, recording string, change func(tr *transcript)) {
	t.Run(recording, func(t *testing.T) {
		want := recordedTranscript(t, recording).shows(t)
		tr := recordedTranscript(t, recording)
		before := strings.Join(tr.lines, "")
		change(tr)
		if strings.Join(tr.lines, "") == before {
			t.Fatal("nothing was changed")
		}
		if d := cmp.Diff(want, tr.shows(t)); d != "" {
			t.Errorf("-before +after:\n%s", d)
		}
	})
}

func TestOutputThatDoesNotNameItsCallIsShown(t *testing.T) {
	named := regexp.MustCompile(`"tool_use_id":"[^"]*",?`)
	for _, recording := range []string{"edited-arguments@2.1.197", "edit@2.1.330"} {
		unchanged(t, recording, func(tr *transcript) {
			for i, l := range tr.lines {
				tr.lines[i] = strings.ReplaceAll(named.ReplaceAllString(l, ""), `,}`, `}`)
			}
		})
	}
}

// An agent that is resumed in another directory continues in another file.
func TestFilesOfOneConversationAreOne(t *testing.T) {
	for _, recording := range []string{"text@2.1.197", "text@2.1.330", "tools@2.1.330"} {
		unchanged(t, recording, func(tr *transcript) {
			half := len(tr.lines) / 2
			var elsewhere []string
			for _, l := range tr.lines[:half] {
				elsewhere = append(elsewhere, strings.ReplaceAll(l, `"cwd":"/tmp/runnel-fixture/project"`, `"cwd":"/another/directory"`))
			}
			tr.more = map[string][]string{"-another-directory/" + filepath.Base(tr.rel): elsewhere}
			tr.lines = tr.lines[half:]
		})
	}
}

func TestEntriesForTheAgentsOwnScreenAreNoPrompts(t *testing.T) {
	for _, recording := range []string{"compact@2.1.197", "compact-auto@2.1.330"} {
		unchanged(t, recording, func(tr *transcript) {
			for i, l := range tr.lines {
				if strings.Contains(l, `"isVisibleInTranscriptOnly":true`) {
					tr.lines[i] = strings.Replace(l, `"isCompactSummary":true`, `"isCompactSummary":false`, 1)
				}
			}
		})
	}
}

// Some versions of Claude Code do not mark the text that they add for a skill.
func TestTextOfASkillIsNoPrompt(t *testing.T) {
	for _, recording := range []string{"skill@2.1.197", "skill@2.1.330"} {
		unchanged(t, recording, func(tr *transcript) {
			for i, l := range tr.lines {
				if strings.Contains(l, "Base directory for this skill") {
					tr.lines[i] = strings.Replace(l, `"isMeta":true`, `"isMeta":false`, 1)
				}
			}
		})
	}
}

// rewrite changes fields of a line of a transcript.
func rewrite(t *testing.T, line string, fields map[string]any) string {
	t.Helper()
	var e map[string]any
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatal(err)
	}
	maps.Copy(e, fields)
	out, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(out) + "\n"
}

// A command that the agent stores in its own form is shown as the user typed
// it, with its output. The rest of the conversation is shown as before.
func TestCommandsAreShownAsTheyWereTyped(t *testing.T) {
	user := func(text string) map[string]any { return map[string]any{"role": "user", "content": text} }
	for name, c := range map[string]struct {
		stored, printed string // in the form in which the agent stores them
		typed, shown    string
	}{
		"a command of the user's": {
			"<command-message>greet</command-message>\n<command-name>/greet</command-name>\n<command-args>the <world> & all</command-args>", "",
			"/greet the <world> & all", "",
		},
		"a command of the user's without arguments": {
			"<command-message>greet is running…</command-message>\n<command-name>/greet</command-name>", "", "/greet", "",
		},
		"a shell command": {
			"<bash-input>echo out; echo wrong >&2</bash-input>", "<bash-stdout>out</bash-stdout><bash-stderr>wrong</bash-stderr>",
			"!echo out; echo wrong >&2", "out\nwrong",
		},
		"a shell command that prints nothing": {"<bash-input>true</bash-input>", "<bash-stdout></bash-stdout><bash-stderr></bash-stderr>", "!true", ""},
		"a command of the agent's": {
			"<command-name>/cost</command-name>\n            <command-message>cost</command-message>\n            <command-args></command-args>",
			"<local-command-stdout>Total: \x1b[1m$1\x1b[22m</local-command-stdout>", "/cost", "Total: $1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := recordedTranscript(t, "text@2.1.330")
			l := tr.prompt(t)
			at := slices.IndexFunc(tr.lines, func(line string) bool { return line == *l })
			const uuid = "11111111-2222-4333-8444-555555555555"
			var first struct{ UUID string }
			if err := json.Unmarshal([]byte(*l), &first); err != nil {
				t.Fatal(err)
			}
			*l = rewrite(t, *l, map[string]any{"message": user(c.stored), "promptSource": nil}) // like a line typed in a terminal
			if c.printed != "" {                                                                // the next line now follows the output
				for i, line := range tr.lines {
					tr.lines[i] = strings.Replace(line, `"parentUuid":"`+first.UUID+`"`, `"parentUuid":"`+uuid+`"`, 1)
				}
				tr.lines = slices.Insert(tr.lines, at+1, rewrite(t, *l, map[string]any{"message": user(c.printed), "uuid": uuid, "parentUuid": first.UUID}))
			}
			var said []string
			failed := false
			for _, body := range tr.shows(t) {
				var b struct {
					Type      string
					FinalItem struct{ Type, Content, Origin string }
				}
				if err := json.Unmarshal([]byte(body), &b); err != nil {
					t.Fatal(err)
				}
				if b.FinalItem.Type == "message" {
					said = append(said, b.FinalItem.Origin+" "+b.FinalItem.Content)
				}
				failed = failed || b.Type == "response_error"
			}
			want := []string{"user " + c.typed}
			if c.shown != "" {
				want = append(want, "system "+c.shown)
			}
			want = append(want, "agent Grüße, 世界 🙂, and a good day to you.")
			if failed || len(said) != len(want)+2 || !slices.Equal(said[:len(want)], want) {
				t.Errorf("failed: %v, shown %q, want %q and another turn", failed, said, want)
			}
		})
	}
}
