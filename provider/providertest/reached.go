package providertest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// A Reached is what an agent, as a user installs it, tried to reach from a
// sandbox, and the settings by which its provider keeps it quiet there.
type Reached struct {
	Agent    string    `json:"agent"`
	Name     string    `json:"displayName"`
	Version  string    `json:"version"`
	Quiet    []string  `json:"quiet"`
	Attempts []Attempt `json:"attempts"`
}

// An Attempt is a host that an agent tried to reach.
type Attempt struct {
	When string `json:"when"` // "start", "turn", "idle" or "end"
	Host string `json:"host"`
	Port int    `json:"port"`
	By   string `json:"by,omitzero"` // what allowed it. Absent if it was blocked
}

// Same reports whether two attempts differ at most in when they were made.
func (a Attempt) Same(b Attempt) bool {
	b.When = a.When
	return a == b
}

// ReachedDir is the folder of the repository with a file for each Reached.
var ReachedDir = filepath.Join("test", "guardrails", "testdata", "egress")

// AllReached returns what the agents tried to reach, sorted by agent. root is
// the root of the repository.
func AllReached(root string) (all []Reached, err error) {
	files, err := filepath.Glob(filepath.Join(root, ReachedDir, "*.json"))
	for _, file := range files {
		var r Reached
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, r)
	}
	return all, err
}
