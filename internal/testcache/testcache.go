// Package testcache keeps results of tests cheap to cache.
//
// A test program writes a log of the files that its tests open or look up, and
// of the environment variables that they read. The go command checks each line
// of that log when it stores the result and whenever it uses it: with a million
// lines, 15 seconds of processor time each. Tests that look up the same files
// often use this package; of equal lines, it keeps the first.
package testcache

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
)

// Main is a [testing.M] whose log has no repetitions.
type Main struct{ *testing.M }

// Run runs the tests, as [testing.M.Run] does.
func (m Main) Run() int {
	code := m.M.Run()
	if err := shorten(); err != nil {
		fmt.Fprintln(os.Stderr, "testcache:", err)
		return 2
	}
	return code
}

// shorten removes the repetitions from the log of this process, if it writes one.
func shorten() error {
	log := flag.Lookup("test.testlogfile")
	if log == nil || log.Value.String() == "" {
		return nil
	}
	name := log.Value.String()
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return os.WriteFile(name, once(content), 0o600)
}

// once returns the log without repeated lines. A line is kept again after a change
// of the working directory, because its path may be relative.
func once(log []byte) []byte {
	var out bytes.Buffer
	seen := map[string]bool{}
	for line := range bytes.Lines(log) {
		if bytes.HasPrefix(line, []byte("chdir ")) {
			clear(seen)
		}
		if key := string(line); !seen[key] {
			seen[key] = true
			out.Write(line)
		}
	}
	return out.Bytes()
}
