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

func completionScript(t *testing.T, shell string) string {
	t.Helper()
	var out bytes.Buffer
	root := (&app{in: strings.NewReader(""), out: &out, err: &out, providers: all.Providers()}).root()
	root.SetArgs([]string{"completion", shell})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestNoCompletionScriptForPowerShell(t *testing.T) {
	var out, failed bytes.Buffer
	root := (&app{in: strings.NewReader(""), out: &out, err: &failed, providers: all.Providers()}).root()
	root.SetArgs([]string{"completion", "powershell"})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "quoted prompt") || strings.Contains(out.String(), "Invoke-Expression") {
		t.Errorf("%v, printed %q", err, out.String())
	}
}

// A prompt is often pasted from somewhere. The completion must not run commands
// that stand in it.
func TestCompletionForFishRunsNothingOfAPrompt(t *testing.T) {
	script := completionScript(t, "fish")
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

func TestCompletionForZshRunsNothingOfAPrompt(t *testing.T) {
	script := completionScript(t, "zsh")
	if strings.Contains(script, anyFlag) || !strings.Contains(script, plainFlag) {
		t.Error("the script gives eval what is no flag")
	}
	zsh, err := exec.LookPath("zsh")
	if err != nil {
		t.Skip("zsh is not installed")
	}
	home := t.TempDir()
	for name, text := range map[string]string{"runnel.zsh": script, "runnel": "#!/bin/sh\necho :0\n", "act": "#!/bin/sh\ntouch ran\n"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// The functions stand for those of zsh's completion. Like zsh, the test puts
	// the words of the line into words without removing their quotes.
	const complete = `compdef() { }; _describe() { print -r -- "$@"; return 1 }; _arguments() { }
source ./runnel.zsh; words=(runnel run "$1"); CURRENT=3; _runnel`
	for word, want := range map[string]string{
		"'see a-$(act)=1'":    "completions completions\n",
		"'see a-`act`=1'":     "completions completions\n",
		"'see -;act;='":       "completions completions\n",
		"--model='$(act)=1'":  "completions completions -P --model=\n",
		"--permission-mode=":  "completions completions -P --permission-mode=\n",
		"'--a$(act)b=c' 'd=1": "completions completions\n",
	} {
		cmd := exec.Command(zsh, "-f", "-c", complete, "zsh", word)
		cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "PATH=" + home + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if got := string(out); err != nil || got != want {
			t.Errorf("%s: %v, got %q, want %q", word, err, got, want)
		}
		if _, err := os.Stat(filepath.Join(home, "ran")); err == nil {
			t.Fatalf("%s: a command of the line ran", word)
		}
	}
}
