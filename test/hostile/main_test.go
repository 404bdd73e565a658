//go:build linux

package hostile

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testexec"
)

// program is the path of the program under test.
var program string

// roles maps the first argument of this test binary to a role, such as a tool
// of an agent or a helper. The binary then plays that role instead of running
// tests. If the binary's name is claude or codex, it plays that agent.
var roles = map[string]func(args []string){
	"play-spy": spy, "play-zoo": zoo, "play-stay": stay, "play-limit": limiter, "play-masquerade": masquerade{}.play, "play-socket": useInherited, "play-impostor": impostor{}.play, "play-old": runOld,
	"play-vacate": vacate{}.play, "play-exhaust": exhaust{}.play, "play-exhaust-detached": exhaustDetached, "play-starve": starve, "play-zombie": zombie, "play-change": change, "play-changed": changed, "play-peek": peek, "play-send": sendRequest, "play-list": list, "play-become": become, "play-borrow": borrow, "play-inject": inject, "play-reach": reach,
	"play-enter": enter, "play-inside": inside,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		roles[os.Args[1]](os.Args[2:])
		os.Exit(0)
	}
	switch filepath.Base(os.Args[0]) {
	case "claude":
		os.Exit(agentMain(os.Args[1:]))
	case "codex":
		os.Exit(codexMain(os.Args[1:]))
	}
	flag.Parse()
	if testing.Short() { // the cache of test results does not notice changes of the built program
		_ = flag.Set("test.run", "^$")
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "runnel-hostile")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // another user runs the program, too
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program = filepath.Join(dir, "runnel")
	if err := provide(program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// provide copies the program that RUNNEL_BIN names to a path, where another user
// can run it. Without RUNNEL_BIN, it builds the program there.
func provide(path string) error {
	if built := os.Getenv("RUNNEL_BIN"); built != "" {
		program, err := os.ReadFile(built)
		if err != nil {
			return err
		}
		return testexec.Write(path, program)
	}
	build := exec.Command("go", "build", "-o", path, "github.com/runnel-dev/runnel/cmd/runnel")
	build.Stderr = os.Stderr
	return build.Run()
}

// long reports whether to run the long tests.
func long() bool { return os.Getenv("RUNNEL_LONG") != "" }

// words joins what a program printed and its error.
func words(out []byte, err error) string { return strings.TrimSpace(fmt.Sprint(string(out), " ", err)) }
