// Command agent is an agent without a model. It writes the deltas that a
// load.Plan in the prompt requests.
//
// The benchmark puts it in PATH in place of the real agents and it implements
// their protocols. It uses stream-json by default, and the Agent Client
// Protocol if an argument is "acp" or its program name ends in "acp".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	args := os.Args[1:]
	out := &output{w: os.Stdout}
	var err error
	switch {
	case slices.Contains(args, "--version"):
		_, err = fmt.Fprintln(os.Stdout, "2.1.329 (Claude Code)")
	case slices.Contains(args, "status"):
		_, err = fmt.Fprintln(os.Stdout, `{"loggedIn":true}`)
	case slices.Contains(args, toolWord):
		time.Sleep(toolLife)
	case slices.Contains(args, "acp") || strings.HasSuffix(filepath.Base(os.Args[0]), "acp"):
		err = eachLine(os.Stdin, (&acp{out: out}).handle)
	default:
		err = eachLine(os.Stdin, (&streamJSON{out: out}).handle)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// eachLine calls f with each JSON value of r, up to the end of r.
func eachLine(r io.Reader, f func(json.RawMessage) error) error {
	dec := json.NewDecoder(bufio.NewReader(r))
	for {
		var line json.RawMessage
		if err := dec.Decode(&line); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := f(line); err != nil {
			return err
		}
	}
}

// output writes one message per line, each with one write call, as agents do.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *output) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err = o.w.Write(append(line, '\n'))
	return err
}

type object = map[string]any

const (
	toolWord = "stay"
	toolLife = 5 * time.Minute
)

// startTool starts a process that outlives this one. It is in a session of its
// own, so killing the agent's process group does not end it.
func startTool() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, toolWord)
	cmd.SysProcAttr = ownSession()
	return cmd.Start()
}
