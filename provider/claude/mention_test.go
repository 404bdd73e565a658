package claude

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Claude Code reads a file that a prompt names after an @, without an approval.
// The provider prevents this for files outside the project folder.
func TestMentionsOfFilesOutsideTheProjectAreNotRead(t *testing.T) {
	onSharedAgent(t, plain, func(t *testing.T, r *rig) {
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
