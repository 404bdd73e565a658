package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const pathList = string(os.PathListSeparator)

func TestRelativeEntriesOfPathReachNoChild(t *testing.T) {
	bin := t.TempDir()
	dirty := strings.Join([]string{"", ".", "node_modules/.bin", bin, "..", ""}, pathList)
	for name, env := range map[string][]string{
		"inherited":  Environ([]string{"PATH=" + dirty}, Base(), nil),
		"configured": Environ(nil, nil, map[string]string{"PATH": dirty}),
	} {
		if !slices.Equal(env, []string{"PATH=" + bin}) {
			t.Errorf("%s: %q", name, env)
		}
	}
}

func TestLookPathSkipsRelativeEntries(t *testing.T) {
	here, bin := t.TempDir(), t.TempDir()
	t.Chdir(here)
	name := "program"
	if filepath.Separator == '\\' {
		name += ".exe"
	}
	for _, dir := range []string{here, bin} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := LookPath(name, strings.Join([]string{".", "", bin}, pathList)); found != filepath.Join(bin, name) || err != nil {
		t.Errorf("found %q, %v", found, err)
	}
	if found, err := LookPath(name, "."); err == nil {
		t.Errorf("found %q", found)
	}
}

func TestNodeCompilesInNoSharedFolder(t *testing.T) {
	if env := OwnCode([]string{"A=1"}); !slices.Contains(env, "NODE_DISABLE_COMPILE_CACHE=1") {
		t.Errorf("Node.js would use the folder for temporary files: %q", env)
	}
	own := []string{"NODE_COMPILE_CACHE=/own"}
	if env := OwnCode(own); !slices.Equal(env, own) {
		t.Errorf("%q does not keep the user's folder", env)
	}
}
