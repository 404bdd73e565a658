package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
)

// project creates a project with a settings file and returns its folder.
func project(t *testing.T, settings string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".runnel"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ProjectFile), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestProjectFileGivesOptions(t *testing.T) {
	dir := project(t, `# of the team
model: m
tools: [Read, mcp__docs]
maxTurns: 7
permissionMode: plan
reasoningEffort: high
maxThinkingTokens: 40000
systemPromptAppend: |
  Speak plainly.
  Be brief.
`)
	s, ok, err := Project(dir)
	if err != nil || !ok {
		t.Fatalf("got %v, %v", ok, err)
	}
	want := runnel.Options{
		Model: "m", Tools: []string{"Read", "mcp__docs"}, MaxTurns: 7, PermissionMode: runnel.ModePlan, ReasoningEffort: "high",
		MaxThinkingTokens: 40000, SystemPromptAppend: "Speak plainly.\nBe brief.",
	}
	if diff := cmp.Diff(want, s.Options); diff != "" {
		t.Error(diff)
	}
	if s.From != FromProject || s.Name != filepath.Join(dir, ProjectFile) || s.Lines["tools"] != 3 || s.Lines["systemPromptAppend"] != 8 {
		t.Errorf("got %+v", s)
	}
	if _, ok, err := Project(t.TempDir()); ok || err != nil {
		t.Errorf("without a file: %v, %v", ok, err)
	}
	if s, ok, err := Project(project(t, "# nothing yet\n")); !ok || err != nil || len(s.Options.Tools) > 0 {
		t.Errorf("empty file: %+v, %v", s, err)
	}
}

func TestProjectFileIsStrict(t *testing.T) {
	for settings, want := range map[string]string{
		"model: m\nmodl: n":                `:2: unknown key "modl"; did you mean model?`,
		"model: m\nx: 1":                   `:2: unknown key "x"; the keys are model, tools,`,
		"model: m\n\nmodel: n":             ":3: model: is set in line 1 already",
		"mcpServers: {}":                   ":1: mcpServers: cannot be set in a file",
		"model: m\nconfig: {sandbox: off}": ":2: config: may decide what the agent does without asking",
		"addDirs: [/]":                     ":1: addDirs: leads out of the project",
		"permissionMode: bypass":           ":1: permissionMode: a project cannot choose bypass",
		"model: 5":                         `:1: model: must be text, not "5"`,
		"model:":                           ":1: model: must be text, not nothing",
		"tools: []":                        ":1: tools: is an empty list",
		"tools: Read":                      ":1: tools: must be a list",
		"tools:\n- Read\n- --settings=x":   ":3: tools: ",
		"maxTurns: 0":                      ":1: maxTurns: ",
		"maxTurns: -3":                     ":1: maxTurns: ",
		"maxTurns: many":                   ":1: maxTurns: must be a number",
		"- model":                          ":1: must be settings",
		"model: {":                         "is not YAML",
		"a: &a m\nmodel: *a":               ":1: unknown key",
		"model: \"m\x00\"":                 ":1: is not text in UTF-8",
		"model: m # " + strings.Repeat("x", 64<<10): "is larger than 64 KiB",
	} {
		dir := project(t, settings)
		_, _, err := Project(dir)
		if runnel.CodeOf(err) != runnel.InvalidRequest || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Join(dir, ProjectFile)) {
			t.Errorf("%.60q: got %v, want %q", settings, err, want)
		}
	}
}

// A repository can contain any link. Project must not follow a link that leads
// out of the project.
func TestProjectFileThatIsALinkOutOfTheProjectIsRefused(t *testing.T) {
	other := project(t, "model: stolen")
	for name, link := range map[string]func(dir string) error{
		"the file": func(dir string) error {
			return os.Symlink(filepath.Join(other, ProjectFile), filepath.Join(dir, ProjectFile))
		},
		"its folder": func(dir string) error {
			if err := os.Remove(filepath.Join(dir, ".runnel")); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(other, ".runnel"), filepath.Join(dir, ".runnel"))
		},
		"a folder instead": func(dir string) error { return os.Mkdir(filepath.Join(dir, ProjectFile), 0o755) },
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, ".runnel"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := link(dir); err != nil {
			t.Fatal(err)
		}
		if s, ok, err := Project(dir); err == nil || ok {
			t.Errorf("%s: got %+v", name, s.Options)
		}
	}
}

func TestSectionsOfTheServersConfigurationGiveOptions(t *testing.T) {
	const file = `listen: 127.0.0.1:0
options:
  model: m
  config: {pace: fast, thoughts: true}
agents:
  script:
    options:
      model: own
`
	s, err := Global("config.yaml", []byte(file), "options")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(runnel.Options{Model: "m", Config: runnel.Values{"pace": "fast", "thoughts": "true"}}, s.Options); diff != "" {
		t.Error(diff)
	}
	if s.From != FromGlobal || s.Lines["model"] != 3 {
		t.Errorf("got %+v", s)
	}
	if s, err = Global("config.yaml", []byte(file), "agents", "script", "options"); err != nil || s.Options.Model != "own" || s.Lines["model"] != 8 {
		t.Errorf("got %+v, %v", s, err)
	}
	if s, err = Global("config.yaml", []byte(file), "agents", "none", "options"); err != nil || s.Lines != nil {
		t.Errorf("got %+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"options: m":               "config.yaml:1: options: must be options",
		"options:\n  modl: m":      "config.yaml:2: unknown key",
		"options:\n  addDirs: [x]": `config.yaml:2: addDirs: "x" is not an absolute path`,
	} {
		if _, err := Global("config.yaml", []byte(text), "options"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
