package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/translate"
)

// If a user enables opencode's language servers and formatters, opencode runs
// those that it finds in the folder.
func TestLanguageServersAndFormattersOfUntrustedFolderDoNotRun(t *testing.T) {
	eachOf(t, []string{"opencode"}, func(t *testing.T, r *rig) {
		write := func(path, text string, mode os.FileMode) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
		}
		write(filepath.Join(r.Home.Dir, ".config", "opencode", "opencode.json"), `{"lsp":true,"formatter":true}`, 0o600)
		write(r.File("composer.json"), `{"require-dev":{"laravel/pint":"1"}}`, 0o600)
		write(r.File("biome.json"), `{}`, 0o600)
		write(r.File("a.json"), "{}\n", 0o600)
		var marks []string
		for _, program := range []string{"node_modules/.bin/biome", "vendor/bin/pint"} {
			mark := filepath.Join(r.Home.Dir, "ran-"+filepath.Base(program))
			write(r.File(program), "#!/bin/sh\ntouch "+mark+"\n", 0o700)
			marks = append(marks, mark)
		}
		words := realagents.ToolsetOf(r.Agent.Name)
		work := func(name string) {
			t.Helper()
			r.Play(calls(words.Read(r.File("a.json"))), calls(words.Write(r.File(name), "<?php\n")), said)
			r.FinishTurn(translate.AllowOnce)
		}
		work("one.php")
		r.Close()
		for _, mark := range marks {
			if agentrig.Exists(mark) {
				t.Errorf("a program of the folder ran: %s", filepath.Base(mark))
			}
		}
		if os.Getenv("RUNNEL_LONG") == "" {
			return
		}
		r.Opt.Trusted, r.Conn = true, nil // proves that the test can fail
		work("two.php")
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
