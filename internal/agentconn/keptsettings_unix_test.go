//go:build unix

package agentconn_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// With the umask 002, programs create folders such as ~/.cache that their group can
// change.
func TestErrorOfSettingsNamesTheFolderThatOthersCanChange(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "cache")
	if err := os.Mkdir(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(cache, 0o775); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", filepath.Dir(cache))
	if cache, _ = os.UserCacheDir(); filepath.Base(cache) != "cache" {
		t.Skip("this system has another folder for caches")
	}
	_, err := agentconn.KeepSettings("test", []byte("settings"))
	if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), "chmod go-w "+cache) {
		t.Errorf("got %v", err)
	}
}
