package claude

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// Claude Code reads a file that a prompt names after an @, without an approval.
// The provider prevents this for files outside the project folder, also if the
// agent does not know the variable that switches it off.
func TestMentionsOfFilesOutsideTheProjectAreNotRead(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_DISABLE_FILE_MENTIONS=0")
		outside := filepath.Join(filepath.Dir(r.Home.Project), "outside.txt")
		if err := os.WriteFile(outside, []byte("canary-beside\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, r.File("link")); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{"@" + outside, "look at @../outside.txt now", "@" + outside + "\n/x", "@link", "/nosuch @" + outside, "@/", "@a#b#/../../outside.txt", "@#/../../outside.txt", "@link* a", "@missing/../link", "@x#\u00a0@" + outside, "\u00a0@" + outside, "@" + outside + " @ /compact", "@" + outside + " @\n/compact", "@" + outside + " @\u00a0/compact", "@" + outside + " @\ufeff/compact"} {
			r.Send(p)
			if got := summary(r.Finish("")); !slices.Equal(got, []string{"message ok", "completed end_turn"}) {
				t.Errorf("%q: %q", p, got)
			}
			if got := r.received(); got != p {
				t.Errorf("the model got %q, not %q", got, p)
			}
			if r.ModelReceived("canary-beside") {
				t.Fatalf("%q: the agent read a file outside the folder", p)
			}
		}
		r.Write("inside.txt", "canary-inside\n")
		r.Send("look at @inside.txt")
		r.Finish("")
		if !r.ModelReceived("canary-inside") {
			t.Error("a file in the folder was not read")
		}
	})
}

// Runnel switches the reading of mentioned files off, for which 2.1.197 has no
// variable. The agent then tells the model of the file.
func TestMentionsOfFilesInTheProjectAreReported(t *testing.T) {
	onSharedAgent(t, plain, func(t *testing.T, r *rig) {
		r.Write("told.txt", "canary-told\n")
		r.Send("look at @told.txt")
		r.Finish("")
		if r.ModelReceived("canary-told") != readsMentions(r) {
			t.Errorf("the file was read by the agent: %v", !readsMentions(r))
		}
		if !readsMentions(r) && !r.ModelReceived("The user @-mentioned told.txt") {
			t.Error("the model was not told of the file")
		}
	})
}

func readsMentions(r *rig) bool { return r.Agent.Version == "2.1.197" }

// The model chooses the arguments of a skill. Claude Code asks about few skills,
// and reads the files that the arguments of a skill name after an @.
func TestSkillsReadNoMentionedFiles(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		if readsMentions(r) {
			return // docs/rough-edges.md states this
		}
		outside := filepath.Join(filepath.Dir(r.Home.Project), "outside.txt")
		if err := os.WriteFile(outside, []byte("canary-of-skills\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, r.File("link")); err != nil {
			t.Fatal(err)
		}
		for _, skill := range []string{"simplify", "run", "verify"} {
			for _, args := range []string{`look at \u0040` + outside, `\u0040\"` + outside + `\"`, `\u0040../outside.txt`, `\u0040link`} {
				input := json.RawMessage(`{"skill":"` + skill + `","args":"` + args + `"}`)
				r.Play(fakemodel.Step{Blocks: []fakemodel.Block{{Type: "tool_use", Name: "Skill", Input: input}}}, fakemodel.Step{Text: "done"})
				if _, asked := r.DenyAll(); asked != 0 {
					t.Errorf("%s was asked about %d times", input, asked)
				}
				if r.ModelReceived("canary-of-skills") {
					t.Fatalf("%s: the agent read a file outside the folder", input)
				}
			}
		}
	})
}
