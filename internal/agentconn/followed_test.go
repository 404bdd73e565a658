package agentconn

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
)

func TestFollowedFileReportsEachChangeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f := FollowFile(t.Context(), runnel.Conversation{AgentSessionID: "c", File: "gone"}, func(_ context.Context, id string) (runnel.Conversation, error) {
		if id != "c" {
			t.Errorf("looks up %q", id)
		}
		return runnel.Conversation{File: path}, nil
	})
	if _, err := f.HasChanged(); err == nil {
		t.Error("a missing file is readable")
	}
	f.found = time.Time{} // long ago
	for _, data := range []string{"one", "longer"} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, false} {
			if changed, err := f.HasChanged(); err != nil || changed != want {
				t.Errorf("%s, call %d: %v, %v", data, i, changed, err)
			}
		}
	}
	other := path + "2"
	if err := os.WriteFile(other, []byte("longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if changed, err := f.HasChanged(); err != nil || !changed {
		t.Errorf("another file with the same name: %v, %v", changed, err)
	}
}
