package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/redact"
)

func TestTrust(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	src := filepath.Join(home, "src")
	for _, dir := range []string{src, filepath.Join(home, "other"), filepath.Join(home, ".config", "runnel")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, ".config", "runnel", "config.yaml"), []byte("trusted-folders: [~/src]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	options := func(args ...string) runnel.Options {
		t.Helper()
		printed.Reset()
		a, f, cmd := &app{err: &printed, secrets: redact.New()}, runFlags{}, &cobra.Command{}
		f.register(cmd, a)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if err := a.knowAgents(cmd.Flags()); err != nil {
			t.Fatal(err)
		}
		opt, err := f.options(a)
		if err != nil {
			t.Fatal(err)
		}
		return opt
	}
	trusts := func(args ...string) bool { return options(args...).Trusted }
	other := filepath.Join(home, "other")
	if !trusts("--dir", src) || trusts("--dir", other) || !trusts("--dir", other, "--trust") {
		t.Errorf("src %v, other %v, other with --trust %v", trusts("--dir", src), trusts("--dir", other), trusts("--dir", other, "--trust"))
	}
	for _, dir := range []string{src, other} {
		if opt := options("--dir", dir, "--trust", "--add-dir", src, "--add-dir", other); !slices.Equal(opt.UntrustedDirs, []string{other}) {
			t.Errorf("beside %s, these are untrusted: %q", dir, opt.UntrustedDirs)
		}
	}
	t.Setenv("RUNNEL_TRUSTED_FOLDERS", other)
	if trusts("--dir", src) || !trusts("--dir", other) {
		t.Error("the variable does not win over the file")
	}
	if printed.Len() > 0 {
		t.Errorf("a warning without a link: %s", &printed)
	}
	link := filepath.Join(home, "link")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RUNNEL_TRUSTED_FOLDERS", link)
	if trusts("--dir", other) || trusts("--dir", link) || !strings.Contains(printed.String(), link+" is a link") {
		t.Errorf("a folder is trusted because a link leads to it, or no warning: %s", &printed)
	}
}
