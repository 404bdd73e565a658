package acp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
)

// opencode runs a text in which its parser finds no command without asking. A shell can
// nevertheless write a file or run a program for it.
func TestOpencodeRunsNoTextAboutWhichItDoesNotAsk(t *testing.T) {
	for _, mode := range []runnel.PermissionMode{runnel.ModeDefault, runnel.ModePlan} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "opencode")
			r.Opt.PermissionMode = mode
			out := filepath.Join(r.Home.Dir, "outside")
			r.put(filepath.Join(out, "kept.txt"), "kept\n")
			r.Write("a[$(touch ran)]", "") // the shell makes words out of names of files, too
			mark := func(name string) string { return filepath.Join(out, name) }
			r.Open()
			for _, text := range []string{
				"[[ 'a[$(touch " + mark("test") + ")]' -eq 0 ]]",
				"declare 'a[$(touch " + mark("declare") + ")]=1'",
				"cd . && [[ -v 'a[$(touch " + mark("after-cd") + ")]' ]]",
				"A=b [[ 'a[$(touch " + mark("after-assignment") + ")]' -eq 0 ]]",
				"# true\n> " + mark("redirected"),
				"cd 'a\nb' 2> " + mark("message"),
				"> " + mark("kept.txt"),
				"a () { [[ 1 ]]; }\n[[ 'a[$(touch " + mark("after-function") + ")]' -eq 0 ]]",
				"for f in a; do [[ 'a[$(touch " + mark("loop") + ")]' -eq 0 ]]; done",
				"until [ ' ]; do ls ' ] || [[ 'a[$(touch " + mark("quoted") + ")]' -eq 0 ]]; do break; done",
				"a \\\n() { [[ 1 ]]; }\n> " + mark("continued"),
				"( > " + mark("parentheses") + " )",
				"((a[$(touch " + mark("arithmetic") + ")]))",
				"[ -v 'a[$(touch " + mark("variable") + ")]' ] && ls",
				"RANDOM='a[$(touch " + mark("number") + ")]'\nif ls ) a",
				"export A=b && > " + mark("after-export"),
				"export A=b ls > " + mark("exported"),
				strings.Repeat("A=$b'c'  \n B=$ccc ; cd 'a' ;\n\n  if  ! [ a ]; then  ", 50) + "> " + mark("long"),
				"if touch " + mark("in-condition") + " ${a:=(}\nthen ls\nfi",
				"(touch " + mark("in-parentheses") + " ${a:=(})",
				"if [ a ]; then touch " + mark("after-condition") + " ${a:=(}\nfi",
				"for f in a; do touch " + mark("in-loop") + " ${a:=(}\ndone",
				"! [[ 'a[$(touch " + mark("not") + ")]' -eq 0 ]]",
				"A=1\u2002ls; > " + mark("no-space"),
				"cd $BASH_EXECUTION_STRING\nRANDOM=$_\nif ls ) a\n# a[\x60touch${IFS}" + mark("last-word") + "\x60]",
				"cd a*\nRANDOM=$_\nif ls ) a",
				"[ -v a* ] && A=1\nif ls ) a",
				"for RANDOM in a*; do A=1\u2002ls; done",
			} {
				r.Play(calls(r.words().Shell(text)), said)
				r.DenyAll()
			}
			if !r.ModelReceived("opencode may ask nobody about it") {
				t.Error("the model did not learn why")
			}
			for _, text := range []string{"ls", "# list\ncd .; A='b c' B=--c=d ls -l", "~/none/g++ -v", "true; > " + mark("asked"),
				"export A='b' B=$PWD && ls", "A=1\nls", "[ -d . ] && ls", `[ "$A" = b ] || ls`, "! ls none", "COLUMNS=80 ls"} {
				r.asks(1, r.words().Shell(text))
			}
			left, err := os.ReadDir(out)
			if kept, _ := os.ReadFile(mark("kept.txt")); err != nil || len(left) != 1 || string(kept) != "kept\n" {
				t.Errorf("texts that nobody allowed left %v (%q), %v", left, kept, err)
			}
			if agentrig.Exists(r.File("ran")) {
				t.Error("a shell ran the name of a file")
			}
		})
	}
}

// The parser for PowerShell, which opencode uses if its settings name that shell, finds
// no command in the path of a program.
func TestOpencodeRefusesPathsOfProgramsInPowerShell(t *testing.T) {
	r := newRig(t, "opencode")
	shell := filepath.Join(r.Home.Dir, "bin", "pwsh")
	ran := filepath.Join(r.Home.Dir, "ran")
	r.put(shell, "#!/bin/sh\ntouch "+ran+"\n")
	if err := os.Chmod(shell, 0o755); err != nil {
		t.Fatal(err)
	}
	r.put(filepath.Join(r.Home.Dir, ".config", "opencode", "opencode.json"), `{"shell":"`+shell+`"}`)
	r.Open()
	r.Play(calls(r.words().Shell("./program")), said)
	r.DenyAll()
	if !r.ModelReceived("opencode may ask nobody about it") {
		t.Error("the model did not learn why")
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the program ran")
	}
	r.asks(1, r.words().Shell("ls"))
}

func TestPluginOfRunnelComesToThoseOfTheUserInOpencode(t *testing.T) {
	env, err := opencodeAskAboutTexts(nil, []string{"OPENCODE_PURE=1", opencodeContent + `={"model":"m", // mine` + "\n" + `"plugin":["mine",],}`})
	if err != nil {
		t.Fatal(err)
	}
	if got := env[len(env)-1]; !strings.Contains(got, `"model":"m"`) || !strings.Contains(got, `"plugin":["mine","file:///`) || !slices.Contains(env, "OPENCODE_PURE=0") {
		t.Error(env)
	}
	for _, content := range []string{"[]", `{"plugin":"mine"}`} {
		if _, err := opencodeAskAboutTexts(nil, []string{opencodeContent + "=" + content}); runnel.CodeOf(err) != runnel.SessionCreateFailed {
			t.Errorf("%s: %v", content, err)
		}
	}
}

func TestOpencodeWithoutPluginsIsRefused(t *testing.T) {
	for _, arg := range []string{"--pure", "--pure=true"} {
		r := newRig(t, "opencode")
		p := r.Provider.(runnel.Programmable).WithProgram([]string{r.Agent.Path, arg}, nil)
		if c, err := p.Open(t.Context(), r.Opt); runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), "--pure") {
			t.Errorf("%s: %v, %v", arg, c, err)
		}
	}
}
