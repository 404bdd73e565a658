package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/provider/all"
)

func fishScript(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	root := (&app{in: strings.NewReader(""), out: &out, err: &out, providers: all.Providers()}).root()
	root.SetArgs([]string{"completion", "fish"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A prompt is often pasted from somewhere. The completion must not run commands
// that stand in it.
func TestCompletionForFishRunsNothingOfAPrompt(t *testing.T) {
	script := fishScript(t)
	if strings.Contains(script, unquotedWords) || !strings.Contains(script, quotedWords) || strings.Count(script, "eval $") != 1 {
		t.Error("the script gives eval words that are not quoted")
	}
	fish, err := exec.LookPath("fish")
	if err != nil {
		t.Skip("fish is not installed")
	}
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "runnel.fish"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	// The program stands for runnel and offers the words that it received.
	stub := "#!/bin/sh\nshift 2\nfor w; do echo \"<$w>\"; done\necho :36\n"
	if err := os.WriteFile(filepath.Join(home, "bin", "runnel"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		`runnel run 'explain (touch ran); touch ran' --model `: "<explain (touch ran); touch ran>\n<--model>\n<>\n",
		`runnel run "it's; touch ran; '" --model `:             "<it's; touch ran; '>\n<--model>\n<>\n",
		`runnel run --data ~/data --model `:                    "<--data>\n<" + home + "/data>\n<--model>\n<>\n",
		`~/bin/runnel run --model `:                            "<--model>\n<>\n",
		`runnel run --model 'a (touch ran)`:                    "<--model>\n<'a (touch ran)>\n",
	} {
		cmd := exec.Command(fish, "--no-config", "-c", "source runnel.fish; complete -C $argv[1]", line)
		cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "PATH=" + filepath.Join(home, "bin") + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if got := string(out); err != nil || got != want && !strings.Contains(line, "'a (") {
			t.Errorf("%s: %v, got %q, want %q", line, err, got, want)
		}
		if _, err := os.Stat(filepath.Join(home, "ran")); err == nil {
			t.Fatalf("%s: a command of the line ran", line)
		}
	}
}
