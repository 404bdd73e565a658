package gateway

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
)

// The server decides whether a folder's settings may run code, by the canonical
// path of the folder.
func TestTrustedFolders(t *testing.T) {
	d, p := newDisk(t), &started{}
	base := canonical(t.TempDir())
	for _, dir := range []string{"trusted/below", "trusted-not", "other"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"into": "trusted/below", "trusted/out": "../other"} {
		if err := os.Symlink(to, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	g := d.open(t, func(c *Config) {
		c.Providers, c.TrustedDirs = []runnel.Provider{p}, []string{filepath.Join(base, "trusted"), filepath.Join(base, "missing")}
	})
	defer closeIt(t, g)
	for dir, want := range map[string]bool{
		"trusted": true, "trusted/below": true, "into": true, "trusted-not": false, "other": false, "trusted/out": false, ".": false,
	} {
		st, err := g.Create(t.Context(), "", filepath.Join(base, dir), runnel.Options{}, "")
		if err != nil {
			t.Fatal(err)
		}
		list := p.list()
		if got := list[len(list)-1].opt.Trusted; got != want {
			t.Errorf("%s: trusted %v, want %v", dir, got, want)
		}
		if err := g.Kill(t.Context(), st.SessionID); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Load(t.Context(), st.SessionID, ""); err != nil {
			t.Fatal(err)
		}
		d.ends(t, send(t, g, st.SessionID, "text")) // also when the session resumes
		list = p.list()
		if got := list[len(list)-1].opt.Trusted; got != want {
			t.Errorf("%s, later: trusted %v, want %v", dir, got, want)
		}
	}
}

// Trust in a project does not extend to the additional directories of a
// session.
func TestFurtherDirectoriesAreTrustedByThemselves(t *testing.T) {
	d, p := newDisk(t), &started{}
	base := canonical(t.TempDir())
	var dirs []string
	for _, name := range []string{"trusted", "trusted/below", "other"} {
		dirs = append(dirs, filepath.Join(base, name))
		if err := os.MkdirAll(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g := d.open(t, func(c *Config) { c.Providers, c.TrustedDirs = []runnel.Provider{p}, dirs[:1] })
	defer closeIt(t, g)
	if _, err := g.Create(t.Context(), "", dirs[0], runnel.Options{AddDirs: dirs[1:]}, ""); err != nil {
		t.Fatal(err)
	}
	list := p.list()
	if opt := list[len(list)-1].opt; !opt.Trusted || !slices.Equal(opt.UntrustedDirs, dirs[2:]) {
		t.Errorf("trusted %v, but for %q", opt.Trusted, opt.UntrustedDirs)
	}
}

// An agent in a sandbox, or another user, that can write the folder around a
// trusted one can replace the trusted folder by a link.
func TestLinkInPlaceOfATrustedFolderMakesNothingTrusted(t *testing.T) {
	base := canonical(t.TempDir())
	for _, dir := range []string{"project/trusted", "other/below"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	trusted := []string{filepath.Join(base, "project", "trusted")}
	inside, outside := trusted[0], filepath.Join(base, "other", "below")
	if !Trusts(trusted, inside) || Trusts(trusted, outside) {
		t.Fatal("before there is a link")
	}
	if err := os.Rename(inside, filepath.Join(base, "project", "moved")); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{string(filepath.Separator), base, "../../other", outside, ".."} {
		if err := os.Symlink(to, inside); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{outside, inside, filepath.Join(base, "project"), filepath.Join(base, "project", "moved")} {
			if Trusts(trusted, dir) {
				t.Errorf("a link to %s makes %s trusted", to, dir)
			}
		}
		if err := os.Remove(inside); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(base, "project"), filepath.Join(base, "was")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("was", filepath.Join(base, "project")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(base, "was", "trusted")); err != nil {
		t.Fatal(err)
	}
	if Trusts(trusted, outside) {
		t.Error("links in the place of a parent make another folder trusted")
	}
}
