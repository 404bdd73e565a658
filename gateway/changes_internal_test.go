package gateway

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/filediff"
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

// Many changes of long files with much context do not fill the memory.
func TestIntendedChangesAreBoundedTogether(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a\n"+strings.Repeat("\n", maxShown/lineSize/3)), 0o600); err != nil {
		t.Fatal(err)
	}
	list := make([]event.Change, 10)
	for i := range list {
		list[i] = event.Change{Path: "a.txt", Kind: event.ChangeUpdate, Edits: []event.Edit{{Old: "a", New: "b"}}}
	}
	for context, want := range map[int]int{3: len(list), 1 << 20: 2} {
		all, err := intended(t.Context(), dir, list, context)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, one := range all {
			if one.Place == filediff.PlaceFound && one.Problem == "" {
				n++
			}
		}
		if len(all) != len(list) || n != want {
			t.Errorf("with %d lines of context: located %d of %d changes, want %d", context, n, len(all), want)
		}
	}
}

// A thousand changes of a long file in one event take minutes.
func TestCombiningEndsWithTheRequest(t *testing.T) {
	text := strings.Repeat("a\n", 1000)
	list := []event.Change{{Path: "a.txt", Kind: event.ChangeCreate, NewText: &text}}
	ctx, cancel := context.WithCancel(t.Context())
	net := filediff.NewNet(t.TempDir())
	if err := combine(ctx, net, list, nil); err != nil || len(net.Files(3)) != 1 {
		t.Errorf("got %v and %d files", err, len(net.Files(3)))
	}
	cancel()
	net = filediff.NewNet(t.TempDir())
	if err := combine(ctx, net, list, nil); !errors.Is(err, context.Canceled) || len(net.Files(3)) != 0 {
		t.Errorf("after the end of the request: got %v and %d files", err, len(net.Files(3)))
	}
}
