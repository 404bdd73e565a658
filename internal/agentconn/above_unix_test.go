//go:build unix

package agentconn

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// Agents obey these files also above the repository of a trusted folder, so
// another user could have programs run there.
func TestTrustedFolderBelowSettingsOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	names := []string{".mcp.json", ".env", "settings"}
	for _, name := range []string{".mcp.json", ".ENV", "settings"} {
		for _, tt := range []struct {
			name    string
			opt     runnel.Options
			mode    fs.FileMode
			owner   int
			refused bool
		}{
			{"of another user", runnel.Options{Trusted: true}, 0o777 | fs.ModeSticky, 65534, true},
			{"in an untrusted folder", runnel.Options{}, 0o777 | fs.ModeSticky, 65534, false},
			{"in a sandbox", runnel.Options{Trusted: true, Sandbox: runnel.SandboxProject}, 0o777 | fs.ModeSticky, 65534, false},
			{"of the user", runnel.Options{Trusted: true}, 0o777 | fs.ModeSticky, 0, false},
			{"where only the owner writes", runnel.Options{Trusted: true}, 0o755, 65534, false},
		} {
			top, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			tt.opt.Dir = filepath.Join(top, "shared", "a", "project")
			file := filepath.Join(top, "shared", name)
			for _, err := range []error{
				os.MkdirAll(filepath.Join(tt.opt.Dir, ".git"), 0o755), os.WriteFile(file, nil, 0o600), os.Lchown(file, tt.owner, tt.owner),
				os.Chmod(filepath.Join(top, "shared"), tt.mode),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			_, err = Start(t.Context(), Command{Path: "/bin/false", Above: names}, Agent{}, nil, tt.opt)
			if tt.opt.Sandbox.IsOn() || !tt.refused {
				err = checkAbove(tt.opt, names) // the agent itself cannot work
			}
			if (err != nil) != tt.refused || err != nil && (runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), file+" belongs to another user")) {
				t.Errorf("%s %s: %v", name, tt.name, err)
			}
		}
	}
}
