package rules

import (
	"bytes"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/store"
)

// FuzzSimpleCommand runs every text that counts as one simple command in a real
// bash that finds no programs. Bash must look for exactly one program, with
// exactly these words.
func FuzzSimpleCommand(f *testing.F) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		f.Skip("no bash on this machine")
	}
	for _, text := range notSimple {
		f.Add(text)
	}
	for _, text := range []string{"git status", `git commit -m "a b"`, `g'i't "stat"us`, `grep "\$x\d\\"`, "a:~b c^ d@e+f,g%h", "x 'ä'", `x "#" '!'`, "x=y z", "if x", "[ x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, err := simpleCommand(text)
		if err != nil {
			return
		}
		// The prefix ensures that the name is not a builtin of bash.
		prefixed := "zz-" + strings.TrimLeft(text, " ")
		cmd := exec.Command(bash, "--norc", "--noprofile", "-c", `command_not_found_handle() { printf '%s\0' "$#" "$@"; }`+"\n"+prefixed)
		cmd.Env, cmd.Dir = []string{"PATH=/nonexistent", "LC_ALL=C.UTF-8"}, t.TempDir()
		out, _ := cmd.Output()
		got := strings.Split(string(bytes.TrimSuffix(out, []byte{0})), "\x00")
		want := append([]string{"zz-" + words[0]}, words[1:]...)
		if strings.Contains(want[0], "/") {
			return // bash opens such a path without calling the handler
		}
		if !slices.Equal(got[1:], want) {
			t.Errorf("%q is read as %q, and bash runs %q", text, want, got[1:])
		}
	})
}

// FuzzAllow checks that an allow rule matches no text in which the parser finds
// another command, that explanations agree with decisions, and that no text
// makes a rule panic.
func FuzzAllow(f *testing.F) {
	for _, text := range notSimple {
		f.Add("git log *", text)
		f.Add("git status", "git status"+text)
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		p, err := parsePattern(pattern)
		if err != nil {
			return
		}
		for _, effect := range []store.Effect{store.EffectAllow, store.EffectDeny} {
			agrees(t, []store.Rule{{ID: 1, Effect: effect, Kind: store.RuleExecute, Pattern: pattern}}, call("/p", "Bash", args{"command": text}))
		}
		s := parseScript(text)
		denied := p.denies(s)
		words, err := simpleCommand(text)
		if err != nil || !p.allows(words) {
			return
		}
		if !slices.ContainsFunc(s.commands, func(c []word) bool { return len(c) == len(words) }) || len(s.commands) > 1 && !slices.Contains(hosts, path.Base(words[0])) {
			t.Errorf("%q allows %q, in which there are %d commands", pattern, text, len(s.commands))
		}
		if denied == no {
			t.Errorf("%q allows %q as an allow rule, and does not deny it as a deny rule", pattern, text)
		}
	})
}
