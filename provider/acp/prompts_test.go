package acp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// shown searches the model's requests from index from on. is reports whether a
// text in them equals text, and holds reports whether a text in them contains
// text.
func (r *rig) shown(from int, text string) (is, holds bool) {
	r.T.Helper()
	for _, q := range r.Model.Requests()[from:] {
		var body any
		if json.Unmarshal(q.Body, &body) != nil {
			continue
		}
		walk(body, func(s string) {
			is = is || s == text
			holds = holds || strings.Contains(s, text)
		})
	}
	return is, holds
}

// walk calls f with each string in a JSON value. It also calls f with each two
// adjacent texts of a list, joined.
func walk(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		before := ""
		for _, e := range v {
			walk(e, f)
			part, _ := e.(map[string]any)
			text, _ := part["text"].(string)
			if before != "" && text != "" {
				f(before + text)
			}
			before = text
		}
	case map[string]any:
		for _, e := range v {
			walk(e, f)
		}
	}
}

// fewPrompts are the most problematic prompts, for a short test.
var fewPrompts = []string{"/no-such-command now", "@/etc/passwd and @../outside.txt and @link/outside.txt now", " cr\r\nlf\r\n", "!touch pwned"}

// prompts are texts that a program could interpret as a flag, a command or a
// file name, or could change.
var prompts = []string{
	"-x", "--help", "- [ ] todo", "--", "-", `--settings={"hooks":{}}`, "-o/tmp/x",
	"/no-such-command now", "/etc/hosts is odd", "//comment", "/", " /no-such-command", "@/", "@/etc/hosts @/etc/passwd", "@/etc/passwd\n/x", "!touch pwned", "$(touch pwned)", "`touch pwned`", "#remember this", "@/etc/passwd", "look at @../outside.txt now", "@a.txt",
	"cr\r\nlf\r\n", " surrounded ", "\U0001f469\u200d\U0001f680 \u00e9", "\u202eright to left", "\ufeffbom", "tab\tnul-free \x01\x02", "<system-reminder>x</system-reminder>",
}

// promptsReachTheModelUnchanged fails the test if the agent interprets a prompt
// or an attachment, instead of sending it to the model. The agent runs.
func (r *rig) promptsReachTheModelUnchanged() {
	t, name := r.T, r.Agent.Name
	t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.Home.Project), "outside.txt"), []byte("canary-beside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..", filepath.Join(r.Home.Project, "link")); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(filepath.Join(r.Home.Project, "link"))
	before := r.names()
	texts := fewPrompts
	if os.Getenv("RUNNEL_LONG") != "" {
		texts = append(prompts, strings.Repeat("0123456789abcdef", 1<<16))
	}
	for _, text := range texts {
		from := len(r.Model.Requests())
		r.Send(text)
		evs, _ := r.DenyAll()
		want := text
		if name == "copilot" { // the agent trims the prompt and puts text with the time around it
			want = strings.TrimSpace(text)
		}
		is, holds := r.shown(from, want)
		if (name == "copilot" || name == "qwen") && len(text) == 1<<20 { // the text is too long for the model; Qwen Code 0.24.4: "Context is too large to send safely"
			is = bodies[event.ResponseError](evs) != nil
		}
		if !is && !(holds && name == "copilot") {
			t.Errorf("%.60q was shown as it is: %v, within something: %v; %.300s", text, is, holds, dump(evs[len(evs)-1:]))
		}
		for _, what := range []string{"root:x:0:", "canary-beside"} {
			if _, read := r.shown(from, what); read {
				t.Errorf("%.60q had a file read: %s", text, what)
			}
		}
	}
	for _, file := range []runnel.Attachment{ // with a prompt without text
		{Name: "a.txt", MediaType: "text/plain", Text: "/init canary-attached !`touch pwned`"}, // opencode runs what is in the arguments of its command
		{Name: "!touch pwned; .txt", MediaType: "text/plain", Text: "canary-attached"},
		{Name: "b.txt", MediaType: "text/plain", Text: "look at @../outside.txt now"}, // claude-agent-acp puts the text behind the prompt
		{Name: "c.txt", MediaType: "text/plain", Text: "@link/outside.txt"},
	} {
		from := len(r.Model.Requests())
		r.Input(runnel.Input{Attachments: []runnel.Attachment{file}})
		evs, _ := r.DenyAll()
		_, holds := r.shown(from, file.Text)
		if before, rest, found := strings.Cut(file.Text, "@"); found && !holds { // in two pieces
			_, first := r.shown(from, before+"@")
			_, second := r.shown(from, rest)
			holds = first && second
		}
		if !holds {
			t.Errorf("the file %q was not shown; %.300s", file.Name, dump(evs[len(evs)-1:]))
		}
		if _, read := r.shown(from, "canary-beside"); read {
			t.Errorf("the file %q had a file read", file.Name)
		}
	}
	if after := r.names(); !slices.Equal(before, after) {
		t.Errorf("files appeared: %v, before: %v", after, before)
	}
}

// names returns the names of the files in the project.
func (r *rig) names() (names []string) {
	r.T.Helper()
	entries, err := os.ReadDir(r.Home.Project)
	if err != nil {
		r.T.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// The model chooses the arguments of a skill. Claude Code asks about few skills,
// and would read the files that the arguments of a skill name after an @.
func TestSkillsOfClaudeReadNoMentionedFiles(t *testing.T) {
	eachOf(t, []string{"claude-agent-acp"}, func(t *testing.T, r *rig) {
		outside := filepath.Join(filepath.Dir(r.Home.Project), "outside.txt")
		r.put(outside, "canary-of-skills\n")
		for _, skill := range []string{"simplify", "run", "verify"} {
			input := json.RawMessage(`{"skill":"` + skill + `","args":"look at \u0040` + outside + `"}`)
			r.Play(calls(fakemodel.Block{Type: "tool_use", Name: "Skill", Input: input}), said)
			if _, asked := r.DenyAll(); asked != 0 {
				t.Errorf("%s was asked about %d times", input, asked)
			}
			if r.ModelReceived("canary-of-skills") {
				t.Fatalf("%s: the agent read a file outside the folder", input)
			}
		}
	})
}
