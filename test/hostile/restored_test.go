//go:build unix

package hostile

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testprogram"
)

// A backup has the credentials of its time, also those that were revoked since.
func TestRestoreSaysThatRevokedCredentialsAreValidAgain(t *testing.T) {
	s := &testprogram.Server{}
	s.Token(t, "read")
	backup := filepath.Join(t.TempDir(), "backup.tar")
	s.Command(t, "backup", backup)
	cmd := exec.Command(testprogram.Path(t), "restore", backup, "--data", filepath.Join(t.TempDir(), "restored"))
	cmd.Env = s.Env
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "valid again: check runnel token list") {
		t.Errorf("%v\n%s", err, out)
	}
}
