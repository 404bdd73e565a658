package profile

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const whole = `---
description: Reads a change and says what is wrong with it
model: opus
tools: [Read, Grep, mcp__issues]
max_turns: 12
subagents:
  - tester
  - doc_writer
disallowed_tools: [Bash, Write]
auto_approve_tools: [Read]
AGENT_TYPE: 2
AGENT_CLASS: TASK
---

You review code.

    indented
`

func TestParseReadsEveryKeyAndTheText(t *testing.T) {
	want := Profile{
		Name: "reviewer", Description: "Reads a change and says what is wrong with it", Model: "opus",
		Tools: []string{"Read", "Grep", "mcp__issues"}, MaxTurns: 12, Subagents: []string{"tester", "doc_writer"},
		DisallowedTools: []string{"Bash", "Write"}, AutoApproveTools: []string{"Read"}, AgentType: TypeDelegate, AgentClass: ClassTask,
		Text: "You review code.\n\n    indented",
		lines: map[string]int{
			"description": 2, "model": 3, "tools": 4, "max_turns": 5, "subagents": 6, "disallowed_tools": 9,
			"auto_approve_tools": 10, "AGENT_TYPE": 11, "AGENT_CLASS": 12, textKey: 15,
		},
	}
	for name, data := range map[string]string{
		"plain": whole, "byte-order mark": "\ufeff" + whole, "CRLF": strings.ReplaceAll(whole, "\n", "\r\n"),
		"spaces behind the marks": strings.ReplaceAll(whole, "---\n", "---  \t\n"), "no newline at the end": strings.TrimSuffix(whole, "\n"),
	} {
		got, err := Parse("reviewer", []byte(data))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestParseTakesAFileOfOneHalf(t *testing.T) {
	for data, want := range map[string]string{
		"---\n---\nOnly text.\n":     "Only text.",
		"---\n# nothing\n---\ntext":  "text",
		"---\nmodel: opus\n---":      "",
		"---\n---\n---\nnot a mark:": "---\nnot a mark:",
	} {
		if got, err := Parse("p", []byte(data)); err != nil || got.Text != want {
			t.Errorf("%q: text %q, %v", data, got.Text, err)
		}
	}
}

func TestParseNamesFileLineAndCause(t *testing.T) {
	front := func(lines string) string { return "---\n" + lines + "\n---\ntext\n" }
	many := strings.TrimSuffix(strings.Repeat("a,", maxList+1), ",")
	for data, want := range map[string]string{
		"":                                "reviewer.md:1: does not begin with front matter; write a line --- before and after the settings",
		"# Title\n":                       "reviewer.md:1: does not begin with front matter",
		"---\nmodel: opus\n":              "reviewer.md:1: the front matter does not end; write a line --- after the settings",
		"\n---\nmodel: opus\n---\n":       "reviewer.md:1: does not begin with front matter",
		front("model: a\n\nmodl: opus"):   `reviewer.md:4: unknown key "modl"; did you mean model?`,
		front("disallowed-tools: [Bash]"): `reviewer.md:2: unknown key "disallowed-tools"; did you mean disallowed_tools?`,
		front("maxTurns: 3"):              `reviewer.md:2: unknown key "maxTurns"; did you mean max_turns?`,
		front("agent_type: 2"):            `reviewer.md:2: unknown key "agent_type"; did you mean AGENT_TYPE?`,
		front("colour: red"):              `reviewer.md:2: unknown key "colour"; the keys are description, model,`,
		front("model: a\nmodel: b"):       "reviewer.md:3: model: is set in line 2 already; remove one of them",
		front("model: a\n...\ndisallowed_tools: [Bash]"):    "reviewer.md:3: is not YAML: did not find",
		front("model: a\n--- # x\ntools: [Bash]"):           "reviewer.md:3: is not YAML: the settings end before their last line",
		front("model: [a]"):                                 "reviewer.md:2: model: must be text, not a list",
		front("model: 5"):                                   `reviewer.md:2: model: must be text, not "5"`,
		front("model:"):                                     "reviewer.md:2: model: must be text, not nothing",
		front("model: '  '"):                                "reviewer.md:2: model: is blank; leave it out",
		front("model: " + strings.Repeat("m", 129)):         "reviewer.md:2: model: has 129 bytes; at most 128 are allowed",
		front("tools: Read, Grep"):                          `reviewer.md:2: tools: must be a list such as [one, two], not "Read, Grep"`,
		front("tools:\n  - Read\n  - {a: b}"):               "reviewer.md:4: tools: an entry must be a name, not settings of its own",
		front("tools:\n  - Read\n  -"):                      "reviewer.md:4: tools: an entry must be a name, not nothing",
		front("tools:\n  - Read\n  - Read"):                 `reviewer.md:4: tools: "Read" is in the list twice; remove one of them`,
		front("tools: []"):                                  "reviewer.md:2: tools: is an empty list; name tools, or leave it out for the agent's own",
		front("tools: [" + many + "]"):                      "reviewer.md:2: tools: 101 entries are too many; at most 100 are allowed",
		front("tools: ['a b']"):                             `reviewer.md:2: tools: "a b" is not the name of a tool`,
		front("disallowed_tools:\n- Bash\n- Bash(git:*)"):   `reviewer.md:4: disallowed_tools: "Bash(git:*)" is a pattern; name a whole tool such as Bash`,
		front("auto_approve_tools: ['*']"):                  `reviewer.md:2: auto_approve_tools: "*" is a pattern`,
		front("max_turns: many"):                            `reviewer.md:2: max_turns: must be a number, not "many"`,
		front("max_turns: 0"):                               "reviewer.md:2: max_turns: 0 is not a number from 1 to 10000",
		front("max_turns: 99999999999999999999999"):         "reviewer.md:2: max_turns: must be a number",
		front("subagents: [Explore]"):                       `reviewer.md:2: subagents: "Explore" is not the name of a profile`,
		front("subagents: [" + strings.Repeat("a", 65)):     "is not YAML",
		front("AGENT_TYPE: [2]"):                            "reviewer.md:2: AGENT_TYPE: must be one value, not a list",
		front("AGENT_CLASS:"):                               "reviewer.md:2: AGENT_CLASS: must be one value, not nothing",
		front("- model"):                                    "reviewer.md:2: must be settings, each as name: value",
		front("model: a\n\ttools: [b]"):                     "reviewer.md:2: is not YAML: found a tab",
		front("model: a\ndescription: 'open\nmax_turns: 3"): "is not YAML: ",
		front("a: &x [Read]\ntools: *x"):                    `reviewer.md:2: unknown key "a"`,
		front("subagents: &x [a]\ntools: *x"):               "reviewer.md:3: tools: must be a list such as [one, two], not a reference",
		front("? [a]\n: b"):                                 "reviewer.md:2: unknown key",
		front("model: a") + "\xff":                          "reviewer.md:5: is not text in UTF-8",
		"---\nmodel: a\x00b\n---\n":                         "reviewer.md:2: is not text in UTF-8, or holds a NUL character",
		"\xff\xfe-\x00-\x00-\x00":                           "reviewer.md:1: is not text in UTF-8",
		front("") + strings.Repeat("x", MaxFile):            "reviewer.md: has 262158 bytes; at most 262144 are allowed",
	} {
		_, err := Parse("reviewer", []byte(data))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q:\n got %v\nwant %s", data, err, want)
		}
	}
}

func TestParseTakesTheLargestFile(t *testing.T) {
	data := []byte("---\n---\n" + strings.Repeat("x", MaxFile-8))
	if _, err := Parse("p", data); err != nil {
		t.Error(err)
	}
	if _, err := Parse("p", append(data, 'x')); err == nil {
		t.Error("one byte more is taken")
	}
}

func TestIsName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "0": true, "code-reviewer_2": true, strings.Repeat("a", 64): true,
		"": false, "-a": false, "_a": false, "A": false, "a.b": false, "../a": false, "a/b": false, "ä": false, "a\n": false, strings.Repeat("a", 65): false,
	} {
		if got := IsName(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// For any content, parsing returns a profile or an error that names the file.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("---\na: &a [*a]\n---\n"))
	f.Add([]byte("---\n<<: {model: a}\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("p", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "p.md:") {
				t.Errorf("%q: error %q does not name the file", data, err)
			}
			return
		}
		for _, list := range [][]string{p.Tools, p.Subagents, p.DisallowedTools, p.AutoApproveTools} {
			if len(list) > maxList {
				t.Errorf("%d entries", len(list))
			}
		}
		if again, err := Parse("p", data); fmt.Sprint(again, err) != fmt.Sprint(p, nil) {
			t.Errorf("parsed twice: %+v and %+v, %v", p, again, err)
		}
	})
}
