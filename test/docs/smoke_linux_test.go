package docs

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testexec"
	"github.com/runnel-dev/runnel/internal/testprogram"
)

// smoke runs a smoke script with a program, with a uname that reports the given
// system.
func smoke(t *testing.T, script, program, system string) (out string, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
	}
	bin := t.TempDir()
	if err := testexec.Write(filepath.Join(bin, "uname"), "#!/bin/sh\necho "+system+"\n"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "../../scripts/smoke/"+script, program)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + bin + ":/usr/bin:/bin", "TMPDIR=" + t.TempDir()}
	data, err := cmd.CombinedOutput()
	return string(data), err
}

// Each smoke script must pass with the built program if uname reports the
// system that it expects.
func TestSmokeScriptsPass(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	binary := testprogram.Path(t)
	for script, system := range map[string]string{"linux.sh": "Linux", "macos.sh": "Darwin"} {
		out, err := smoke(t, script, binary, system)
		if err != nil || !strings.Contains(out, "ok: no process is left\n") {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// A smoke script must fail for a broken program and name what failed.
func TestSmokeScriptFailsForBrokenProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	binary := testprogram.Path(t)
	for name, c := range map[string]struct{ command, want string }{
		"not runnel":    {"exit 0", "not ok: installed"},
		"no server":     {`[ "$1" = serve ] && { echo broken; exit 1; }`, "not ok: the server has ended: broken"},
		"sick":          {`[ "$1" = doctor ] && { echo "problem  disk: full"; echo "1 problem, 0 warnings"; exit 1; }`, "not ok: the doctor finds a problem"},
		"other machine": {"", "not ok: "},
	} {
		program := filepath.Join(t.TempDir(), "runnel")
		if err := testexec.Write(program, "#!/bin/sh\n"+c.command+"\nexec "+binary+` "$@"`+"\n"); err != nil {
			t.Fatal(err)
		}
		if c.command == "" {
			program += "-none"
		}
		if out, err := smoke(t, "linux.sh", program, "Linux"); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if out, err := smoke(t, "linux.sh", binary, "Darwin"); err == nil || !strings.Contains(out, "this is not Linux") {
		t.Errorf("another system: %v\n%s", err, out)
	}
}
