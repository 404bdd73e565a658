package gateway

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// The lines around a change of such a file would show its other secrets.
func TestChangesInFilesOfSecretsAreNotLocated(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, read := range map[string]bool{"a.txt": true, ".env": false, ".git/config": false, "keys/id_rsa": false} {
		path := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		text, problem := currentText(dir, event.Change{Path: path})
		if (text != nil) != read || (problem == "") != read {
			t.Errorf("%s: read %v, problem %q", path, text != nil, problem)
		}
	}
}
