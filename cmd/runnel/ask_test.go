package main

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/internal/turnview"
)

// JSON may contain invisible characters, control characters and characters that
// change the text direction, unescaped. They must not hide what would run.
func TestQuestionShowsInvisibleCharacters(t *testing.T) {
	for name, command := range map[string]string{
		"a control string":     "echo hi \u009d; rm -rf ~ \u009c",
		"a control string cut": "echo hi \u0090; rm -rf ~",
		"a sequence":           "echo hi \u009b; rm -rf ~",
		"delete":               "echo hi \u007f; rm -rf ~",
		"right to left":        "echo \u202e~ fr- mr ;ih\u202c",
		"zero width":           "curl https://ex\u200bample.org",
		"a separator":          "echo hi \u2028 rm -rf ~",
		"tags":                 "echo \U000e0041\U000e0042",
		"a filler":             "cat \u3164",
		"odd blanks":           "rm\u00a0-rf ~",
	} {
		t.Run(name, func(t *testing.T) {
			args := json.RawMessage(`{"command":"` + command + `"}`)
			if !json.Valid(args) {
				t.Fatal("not what an agent could send")
			}
			shown := question(event.Approval{Title: "Bash", ToolName: "Bash", Arguments: args, Choices: []event.Choice{{ID: "deny", Label: "Deny"}}}, 80)
			if termtext.Clean(shown) != shown {
				t.Errorf("a terminal would obey it: %q", shown)
			}
			_, rest, _ := strings.Cut(shown, "{")
			object, _, _ := strings.Cut(rest, "}")
			var got struct{ Command string }
			if err := json.Unmarshal([]byte("{"+object+"}"), &got); err != nil || got.Command != command {
				t.Errorf("shown as %q, which means %q, %v; want %q", object, got.Command, err, command)
			}
			for _, r := range object {
				if r > 0x7e || r < ' ' && r != '\n' {
					t.Errorf("%U is not to be seen in %q", r, object)
				}
			}
		})
	}
	plain := question(event.Approval{ToolName: "Write", Arguments: json.RawMessage(`{"text":"grüße, 世界 👍 e\u0301"}`)}, 80)
	if !strings.Contains(plain, "grüße, 世界 👍") {
		t.Errorf("text of other languages is not readable: %q", plain)
	}
}

// An agent may reuse the id of an approval.
func TestQuestionIsShownTwice(t *testing.T) {
	s := newSeen()
	s.note("a")
	s.note("a")
	s.wait(t.Context(), "a")
}

// A choice can grant a folder, of which the end matters as much as the
// beginning.
func TestQuestionShowsLabelsInFull(t *testing.T) {
	label := "Allow edits in /" + strings.Repeat("folder/", 35) + "secrets for this session"
	a := event.Approval{Kind: event.ApprovalTool, ToolName: "apply_patch", Arguments: []byte(`{}`), Choices: []event.Choice{{ID: "s", Kind: event.ChoiceAllowSession, Label: label}}}
	if text := question(a, 80); !strings.Contains(text, label) {
		t.Errorf("the label is cut:\n%s", text)
	}
}

// A terminal continues a long line at its left edge. Without a mark there, an
// argument with enough spaces could draw another question with other arguments
// and choices, below what would run.
func TestArgumentsCannotDrawAnotherQuestion(t *testing.T) {
	for name, filler := range map[string]string{"spaces": " ", "wide characters": "世", "combining characters": "e\u0301", "emoji": "👍"} {
		for _, width := range []int{0, 40, 80, 133} {
			columns := cmp.Or(width, 80)
			command := "rm -rf ~ #" + strings.Repeat(filler, 2*columns)
			for _, row := range []string{"? Bash", "  its arguments, 24 bytes:", "  {", "    'command': 'ls'", "  }", "  1  Allow once"} {
				command += row + strings.Repeat(filler, columns) // some row begins at the edge
				command += strings.Repeat(" ", columns-len(row)) + row
			}
			args, err := json.Marshal(map[string]string{"command": command})
			if err != nil {
				t.Fatal(err)
			}
			shown := question(event.Approval{ToolName: "Bash", Arguments: args, Choices: []event.Choice{{ID: "deny", Label: "Deny"}}}, width)
			var joined strings.Builder
			for line := range strings.Lines(shown) {
				line = strings.TrimSuffix(line, "\n")
				if n := cells(line); n > columns {
					t.Errorf("%s: the terminal continues a line of %d cells on %d columns: %q", name, n, columns, line)
				}
				if more, ok := strings.CutPrefix(line, "  │ "); ok {
					joined.WriteString(more)
				} else {
					joined.WriteString("\n" + line)
				}
			}
			_, rest, _ := strings.Cut(joined.String(), "bytes:\n")
			var got struct{ Command string }
			if err := json.NewDecoder(strings.NewReader(rest)).Decode(&got); err != nil || got.Command != command {
				t.Errorf("%s: the rows mean %q, %v; want %q", name, got.Command, err, command)
			}
		}
	}
}

// A question about a host says the host and the port, and shows the exact
// arguments.
func TestQuestionAboutAHost(t *testing.T) {
	a := event.Approval{Kind: event.ApprovalTool, ToolName: event.ToolConnect, Title: "Reach api.example.com:443", Arguments: json.RawMessage(`{"host":"api.example.com","port":443}`),
		Choices: []event.Choice{{ID: "allow_once", Label: "Allow once"}, {ID: "allow_session", Label: "Allow for this session"}, {ID: "deny", Label: "Deny"}}}
	shown := question(a, 80)
	for _, want := range []string{"? Reach api.example.com:443\n", `"port": 443`, "1  Allow once", "2  Allow for this session", "3  Deny"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in:\n%s", want, shown)
		}
	}
	if got := turnview.DescribeApproval(a, "/p"); got != "Reach api.example.com:443" {
		t.Errorf("described as %q", got)
	}
	a.Arguments = json.RawMessage(`{"host":"2001:db8::1","port":443}`)
	if got := turnview.DescribeApproval(a, "/p"); got != "Reach [2001:db8::1]:443" {
		t.Errorf("described as %q", got)
	}
	a.Arguments, a.Title = json.RawMessage(`{"target":"x"}`), "Reach good.example.com:443" // a tool of the agent with this name
	if shown := question(a, 80); !strings.Contains(shown, "? connect\n") {
		t.Errorf("an agent's own tool:\n%s", shown)
	}
}

func TestEgressAskIsAMode(t *testing.T) {
	var opt runnel.Options
	(&runFlags{sandbox: "project", egressAsk: true, egress: []string{"example.com"}}).enclose(&opt)
	if opt.Egress.Mode != runnel.EgressAsk || len(opt.Egress.Allow) != 1 {
		t.Errorf("got %+v", opt.Egress)
	}
	if (&runFlags{}).enclose(&opt); !opt.Egress.IsZero() {
		t.Errorf("without the flag: %+v", opt.Egress)
	}
}
