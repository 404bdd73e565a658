package acp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// hostileValues returns values that a program could interpret as a flag, a path
// or a command. If a program runs one of the commands, it creates the file
// mark.
func hostileValues(mark string) []string {
	return []string{
		"--dangerously-skip-permissions", `--settings={"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"touch ` + mark + `"}]}]}}`,
		"../x", "a/../../x", "-x", ".", "x\x00y", "x\ny", "x y", "$(touch " + mark + ")", strings.Repeat("x", 1<<20),
	}
}

// TestConversationIDsCannotBeFlags checks that no agent starts if the id of the
// conversation, or the permission mode, is not valid.
func TestConversationIDsCannotBeFlags(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "started")
	program := filepath.Join(t.TempDir(), "agent")
	if err := testexec.Write(program, "#!/bin/sh\ntouch "+mark+"\n"); err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		p := New(a).(runnel.Programmable).WithProgram([]string{program}, nil)
		for _, value := range hostileValues(mark) {
			opt := runnel.Options{Dir: t.TempDir(), Resume: value}
			if c, err := p.Open(t.Context(), opt); runnel.CodeOf(err) != runnel.InvalidRequest {
				t.Errorf("%s, resume %.30q: %v, %v", a.Name, value, c, err)
			}
			if f, ok := p.(runnel.Forker); ok {
				if c, err := f.Fork(t.Context(), opt); runnel.CodeOf(err) != runnel.InvalidRequest {
					t.Errorf("%s, fork %.30q: %v, %v", a.Name, value, c, err)
				}
			}
			if r, ok := p.(runnel.Historian); ok {
				for _, err := range r.History(t.Context(), runnel.Conversation{AgentSessionID: value, Dir: opt.Dir}) {
					if code := runnel.CodeOf(err); code != runnel.InvalidRequest && (code != runnel.SessionNotFound || a.quirks().stored.updates == nil) {
						t.Errorf("%s, history of %.30q: %v", a.Name, value, err)
					}
				}
			}
			if c, err := p.Open(t.Context(), runnel.Options{Dir: opt.Dir, PermissionMode: runnel.PermissionMode(value)}); runnel.CodeOf(err) != runnel.InvalidRequest {
				t.Errorf("%s, mode %.30q: %v, %v", a.Name, value, c, err)
			}
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program was started")
	}
}

// TestOptionValuesCannotRunCommands sets options to a value that looks like a
// flag, because an agent may pass it on the command line of another program.
func TestOptionValuesCannotRunCommands(t *testing.T) {
	accepting := []string{"claude-agent-acp", "codex-acp"} // the other agents accept few options
	eachOf(t, realagents.Usually(accepting...), func(t *testing.T, r *rig) {
		mark := filepath.Join(r.Home.Dir, "ran")
		flag := hostileValues(mark)[1]
		open := func(what string, opt runnel.Options) {
			opt.Dir, opt.Env = r.Opt.Dir, r.Opt.Env
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			opt, err := runnel.CheckOptions(r.Provider, opt, nil) // as a session does
			if err == nil {
				var c runnel.Conn
				if c, err = r.Provider.Open(ctx, opt); err == nil {
					r.Conn = c
					r.Send("hi")
					r.DenyAll()
					c.Close()
				}
			}
			if _, err := os.Stat(mark); err == nil {
				t.Fatalf("%s ran a command", what)
			}
			if code := runnel.CodeOf(err); err != nil && code != runnel.InvalidRequest && code != runnel.UnsupportedCapability {
				t.Errorf("%s: %v", what, err)
			}
		}
		open("system prompt", runnel.Options{SystemPromptAppend: flag})
		open("tools", runnel.Options{Tools: []string{flag}})
		open("further folder", runnel.Options{AddDirs: []string{flag}})
		if os.Getenv("RUNNEL_LONG") == "" {
			return
		}
		open("model", runnel.Options{Model: flag})
		open("effort", runnel.Options{ReasoningEffort: flag})
		open("option", runnel.Options{Config: runnel.Values{flag: flag}})
	})
}
