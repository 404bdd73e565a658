package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/translate"
)

// offersHelpers enables opencode's language servers and formatters, as a user
// may, and creates programs in the folder which opencode would run. It returns
// the files that these programs create.
func (r *rig) offersHelpers() (marks []string) {
	r.T.Helper()
	write := func(path, text string, mode os.FileMode) {
		r.T.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			r.T.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			r.T.Fatal(err)
		}
	}
	write(filepath.Join(r.Home.Dir, ".config", "opencode", "opencode.json"), `{"lsp":true,"formatter":true}`, 0o600)
	write(r.File("composer.json"), `{"require-dev":{"laravel/pint":"1"}}`, 0o600)
	write(r.File("biome.json"), `{}`, 0o600)
	write(r.File("a.json"), "{}\n", 0o600)
	for _, program := range []string{"node_modules/.bin/biome", "vendor/bin/pint"} {
		mark := filepath.Join(r.Home.Dir, "ran-"+filepath.Base(program))
		write(r.File(program), "#!/bin/sh\ntouch "+mark+"\n", 0o700)
		marks = append(marks, mark)
	}
	return marks
}

// usesHelpers reads and writes files for which opencode has a language server
// and a formatter.
func (r *rig) usesHelpers(name string) {
	r.T.Helper()
	words := r.words()
	r.Play(calls(words.Read(r.File("a.json"))), calls(words.Write(r.File(name), "<?php\n")), said)
	r.FinishTurn(translate.AllowOnce)
}

// In a trusted folder, opencode runs the language servers and formatters that it
// finds there, which proves that TestUntrustedRepository can fail.
func TestLanguageServersAndFormattersOfTrustedFolderRun(t *testing.T) {
	agentrig.NeedLong(t)
	eachOf(t, []string{"opencode"}, func(t *testing.T, r *rig) {
		marks := r.offersHelpers()
		r.Opt.Trusted = true
		r.usesHelpers("two.php")
		for _, mark := range marks {
			agentrig.Await(t, mark)
		}
	})
}

func TestDisablingHelpersOfOpencodeKeepsOtherSettings(t *testing.T) {
	const name = "OPENCODE_CONFIG_CONTENT="
	for given, want := range map[string]string{
		``:                             `{"formatter":false,"lsp":false}`,
		`{"lsp":{"a":{}},"model":"m"}`: `{"formatter":false,"lsp":false,"model":"m"}`,
		`{"model":"m",}`:               "",
		`[]`:                           "",
		`null`:                         "",
	} {
		env, err := opencodeNoHelpers([]string{"A=b", name + given})
		if want == "" {
			if runnel.CodeOf(err) != runnel.SessionCreateFailed {
				t.Errorf("%s: %v", given, err)
			}
			continue
		}
		if got := strings.Join(env, " "); err != nil || got != "A=b "+name+want {
			t.Errorf("%s: %s, %v", given, got, err)
		}
	}
	if env, err := opencodeNoHelpers(nil); err != nil || len(env) != 1 {
		t.Errorf("without the variable: %q, %v", env, err)
	}
}
