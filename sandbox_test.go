package runnel

import "testing"

func TestStricterSandboxWins(t *testing.T) {
	order := []Sandbox{"", SandboxOff, SandboxFiles, SandboxProject}
	for i, a := range order {
		for j, b := range order {
			if got, want := StricterSandbox(a, b), order[max(i, j)]; got != want {
				t.Errorf("stricter of %q and %q: %q, want %q", a, b, got, want)
			}
		}
	}
	for box, want := range map[Sandbox]bool{"": false, SandboxOff: false, SandboxFiles: true, SandboxProject: true} {
		if box.IsOn() != want {
			t.Errorf("%q is on: %v", box, !want)
		}
	}
}
