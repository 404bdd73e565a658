package claude

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// The settings of the agent name every project in which it was used, with the
// MCP servers and the newest conversation of each.
func TestSandboxHasSettingsOfItsProjectOnly(t *testing.T) {
	base := t.TempDir()
	repository := filepath.Join(base, "own")
	dir := filepath.Join(repository, "sub")
	if err := os.MkdirAll(filepath.Join(repository, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"kept":1,"primaryApiKey":"key","mcpServers":{"user":{}},"projects":{"` + base + `":{"a":"secret"},"` + base + `/other":{"mcpServers":{"x":{"env":{"A":"secret"}}},"lastSessionId":"secret"},"` +
		repository + `":{"own":1},"` + dir + `/":{"own":2}}}`
	want := `{"kept":1,"mcpServers":{"user":{}},"primaryApiKey":"key","projects":{"` + repository + `":{"own":1},"` + dir + `/":{"own":2}}}`
	if got := string(ownSettings([]byte(text), dir, false)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := string(ownSettings([]byte(text), dir, true)); got != strings.Replace(want, `"primaryApiKey":"key",`, "", 1) {
		t.Errorf("with a broker: %s", got)
	}
	for text, want := range map[string]string{`[]`: "", `null`: "", `x`: "", `{"projects":"secret","a":1}`: `{"a":1}`, `{"projects":{"x":1},"projects":{"y":1}}`: `{}`} {
		if got := string(ownSettings([]byte(text), dir, true)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// An agent that reports the id of another project's conversation does not get
// that conversation's copies of files.
func TestSandboxHasNoStateOfAnotherProjectsConversation(t *testing.T) {
	const own, other = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	home, dir := t.TempDir(), t.TempDir()
	for _, file := range []string{slug(dir) + "/" + own, slug(dir) + "/" + other, "-other/" + other} {
		path := filepath.Join(home, "projects", file+".jsonl")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]bool{own: true, other: false} {
		e := enclosure([]string{"CLAUDE_CONFIG_DIR=" + home}, []string{"--resume=" + id}, runnel.Options{Dir: dir})
		if got := slices.Contains(e.State, filepath.Join(home, "file-history", id)); got != want || slices.Contains(e.State, filepath.Join(home, "tasks", id)) != want {
			t.Errorf("%s: %q", id, e.State)
		}
	}
}
