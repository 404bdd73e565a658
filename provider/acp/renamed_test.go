package acp

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// The user's settings of Gemini CLI and Qwen Code can give other names to the
// files for the model.
func TestRenamedContextFilesOfUntrustedFolderAreFound(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	secret := filepath.Join(home, "secret")
	put := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put(secret, "x")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, ".git"), 0o700), os.Mkdir(filepath.Join(dir, "sub"), 0o700), os.Symlink(secret, filepath.Join(dir, "NOTES.md"))); err != nil {
		t.Fatal(err)
	}
	gemini := func() string { return geminiTrust(runnel.Options{Dir: filepath.Join(dir, "sub")})[0] }
	qwen := func() error {
		return (&provider{agent: known(t, "qwen")}).checkTrust(runnel.Options{Dir: filepath.Join(dir, "sub")})
	}
	const trusted, untrusted = "GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_TRUST_WORKSPACE=false"
	if got, err := gemini(), qwen(); got != trusted || err != nil {
		t.Fatalf("with the usual names: %s, %v", got, err)
	}
	for name, text := range map[string]string{
		"one":      `{"context": {"fileName": "NOTES.md"}}`,
		"several":  `{"context":{"fileName":["GEMINI.md", /* ours */ "NOTES.md"]}}`,
		"old name": `{"contextFileName" : "NOTES.md"}`,
		"too long": `{"x":"` + strings.Repeat("x", maxSettings) + `"}`,
	} {
		put(filepath.Join(home, ".gemini", "settings.json"), text)
		put(filepath.Join(home, ".qwen", "settings.json"), text)
		if got := gemini(); got != untrusted {
			t.Errorf("%s: Gemini CLI starts with %s", name, got)
		}
		if err := qwen(); err == nil {
			t.Errorf("%s: Qwen Code starts", name)
		}
	}
	put(filepath.Join(home, ".gemini", "settings.json"), `{"context":{"fileName":["OTHER.md"]},"model":"NOTES.md"}`)
	put(filepath.Join(home, ".qwen", "settings.json"), `{"context":{"fileName":"OTHER.md"}}`)
	if got, err := gemini(), qwen(); got != trusted || err != nil {
		t.Errorf("with another name: %s, %v", got, err)
	}
}

func TestFallbackContextFilesOfCodexAreFound(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("CODEX_HOME", filepath.Join(home, "codex"))
	secret := filepath.Join(home, "secret")
	if err := errors.Join(os.WriteFile(secret, nil, 0o600), os.Mkdir(filepath.Join(home, "codex"), 0o700), os.Symlink(secret, filepath.Join(dir, "CLAUDE.md"))); err != nil {
		t.Fatal(err)
	}
	codex := &provider{agent: known(t, "codex-acp")}
	if err := codex.checkTrust(runnel.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "codex", "config.toml"), []byte(`project_doc_fallback_filenames = ["CLAUDE.md"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := codex.checkTrust(runnel.Options{Dir: dir}); err == nil {
		t.Error("started although CLAUDE.md leads out of the folder")
	}
}

func TestContextNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	for text, want := range map[string][]string{
		`{}`:                    nil,
		`{"fileName":"a/B.md"}`: {"a/B.md"},
		`{"fileName":["A.md","../x","/etc/x",""]}`:               {"A.md"},
		"project_doc_fallback_filenames = [\n 'A.md', \"B.md\"]": {"A.md", "B.md"},
		`{"fileName":["\u0041.md"]}`:                             {"A.md"},
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := contextNames([]string{path}); !slices.Equal(got, want) || !ok {
			t.Errorf("%s: %q, %v", text, got, ok)
		}
	}
	if got, ok := contextNames([]string{path + "-missing"}); got != nil || !ok {
		t.Errorf("without settings: %q, %v", got, ok)
	}
	if _, ok := contextNames([]string{t.TempDir()}); ok {
		t.Error("a folder in place of the settings counts as settings without names")
	}
}
