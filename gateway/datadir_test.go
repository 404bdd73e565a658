package gateway

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
)

// The project directory of an imported conversation comes from the agent's own
// file, so it may be the server's data directory. Fork must then fail before an
// agent starts there.
func TestForkRejectsDataDirectory(t *testing.T) {
	d := newDisk(t)
	data := t.TempDir()
	for _, dir := range []string{data, filepath.Join(data, "uploads"), filepath.Dir(data)} {
		p := &keeping{}
		p.kept = []runnel.Conversation{{AgentSessionID: "abc", Dir: dir, File: "/agent/abc.jsonl"}}
		g := d.open(t, func(c *Config) { c.Providers, c.DataDir = []runnel.Provider{p}, data })
		st, err := g.Load(t.Context(), "script:abc", "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Fork(t.Context(), st.SessionID)
		wantCode(t, err, runnel.WorkingRootConflict)
		if got := p.forked.Load(); got != nil {
			t.Errorf("%q: the agent was asked to fork %v", dir, got)
		}
		if err := g.Delete(t.Context(), st.SessionID); err != nil {
			t.Error(err)
		}
		closeIt(t, g)
	}
}

// keeping is a provider that can fork and that stores conversations.
type keeping struct {
	forking
	fake
}

func (k *keeping) Name() string { return k.forking.Name() }

func (k *keeping) Open(ctx context.Context, o runnel.Options) (runnel.Conn, error) {
	return k.forking.Open(ctx, o)
}

// A directory has other names through links and, on a case-insensitive file
// system, in other case.
func TestDataDirectoryIsRejectedUnderOtherNames(t *testing.T) {
	parent := t.TempDir()
	data := filepath.Join(parent, "data")
	if err := os.MkdirAll(filepath.Join(data, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(data, filepath.Join(parent, "link")); err != nil {
		t.Skip(err)
	}
	d := newDisk(t)
	g := d.open(t, func(c *Config) { c.DataDir, c.Providers = data, []runnel.Provider{new(started)} })
	defer closeIt(t, g)
	other := filepath.Join(parent, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	dirs := []string{data, data + "/sub", data + "/sub/..", parent, "/", filepath.Join(parent, "link"), filepath.Join(parent, "link", "sub")}
	if _, err := os.Stat(filepath.Join(parent, "DATA")); err == nil {
		dirs = append(dirs, filepath.Join(parent, "DATA"), filepath.Join(parent, "Data", "sub"))
	}
	for _, dir := range dirs {
		_, err := g.Create(t.Context(), "script", dir, runnel.Options{}, "")
		wantCode(t, err, runnel.WorkingRootConflict)
		_, err = g.Create(t.Context(), "script", other, runnel.Options{AddDirs: []string{dir}}, "")
		wantCode(t, err, runnel.WorkingRootConflict)
	}
	if _, err := g.Create(t.Context(), "script", other, runnel.Options{AddDirs: []string{t.TempDir()}}, ""); err != nil {
		t.Error(err)
	}
}
