package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A recording names the checkout in which it was made only as /repo.
func TestRecordingsNameNoCheckout(t *testing.T) {
	const agents, checkout = "/test/agents/node_modules", "/repo"
	found := 0
	err := filepath.WalkDir("../../provider", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".txtar" {
			return err
		}
		rest, err := os.ReadFile(path)
		for {
			before, after, ok := bytes.Cut(rest, []byte(agents))
			if !ok {
				return err
			}
			if found++; !bytes.HasSuffix(before, []byte(`"`+checkout)) {
				t.Errorf("%s: …%s%s", path, before[max(0, len(before)-80):], agents)
			}
			rest = after
		}
	})
	if err != nil || found == 0 {
		t.Errorf("%d paths of agents, %v", found, err)
	}
}
