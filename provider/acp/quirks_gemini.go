package acp

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// gemini is @google/gemini-cli, seen at 0.61.0.
func gemini() *quirks {
	mode := func(value string) []setting { return []setting{{"mode", value}} }
	return &quirks{
		startup: startupQuirks{
			modes: map[runnel.PermissionMode][]setting{
				runnel.ModeDefault: mode("default"), runnel.ModeAcceptEdits: mode("autoEdit"), runnel.ModePlan: mode("plan"), runnel.ModeBypass: mode("yolo"),
			},
			bypass:        []setting{{"mode", "yolo"}},
			waitResumable: geminiWaitResumable,
			environ:       geminiTrust,

			keyLogin: "gemini-api-key", settingsFile: inHome(".gemini", "settings.json"),
		},
		live: liveQuirks{
			forSession: []string{"proceed_always"}, // "Allow for this session" (approval-allowed)
			name:       geminiTool,
			wholeFiles: true, // edit
			usage:      geminiUsage,
		},
		replay: replayQuirks{endsWithCommands: true}, // resume
	}
}

// geminiUsage reads the usage of a turn (text).
func geminiUsage(meta json.RawMessage) *usage {
	count := translate.Loose[struct {
		Quota struct {
			Count *struct {
				Input  int64 `json:"input_tokens"`
				Output int64 `json:"output_tokens"`
			} `json:"token_count"`
		} `json:"quota"`
	}](meta).Quota.Count
	if count == nil {
		return nil
	}
	return &usage{Input: count.Input, Output: count.Output}
}

// geminiWaitResumable waits until a conversation can be resumed without losing it.
//
// Gemini CLI 0.61.0 names the file of a conversation after the minute in which
// a process opened the conversation. A process that loads a conversation in the
// minute in which it began overwrites the file with an empty one, and then does
// not find the conversation.
func geminiWaitResumable(ctx context.Context, env []string, session string) error {
	if uuid.Validate(session) != nil {
		return nil
	}
	home := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "HOME="); ok && home == "" {
			home = v
		}
		if v, ok := strings.CutPrefix(e, "GEMINI_CLI_HOME="); ok {
			home = v
		}
	}
	for {
		now := time.Now().UTC()
		name := "session-" + now.Format("2006-01-02T15-04") + "-" + session[:8] + ".jsonl"
		found, err := filepath.Glob(filepath.Join(home, ".gemini", "tmp", "*", "chats", name))
		if err != nil || len(found) == 0 {
			return nil
		}
		timer := time.NewTimer(now.Truncate(time.Minute).Add(time.Minute).Sub(now))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return runnel.Fail(runnel.Timeout, "waiting for Gemini CLI was given up", ctx.Err())
		}
	}
}

// geminiTool finds the name of a tool in the id of a call (tool).
func geminiTool(tc toolCall) string {
	name, _, ok := strings.Cut(tc.ID, "__")
	if !ok {
		return ""
	}
	return name
}

// geminiTrust says whether the settings of the folder count. If they do not,
// the agent offers no mode that asks less. So an untrusted folder without
// settings counts as trusted.
func geminiTrust(opt runnel.Options) []string {
	trusted := opt.Trusted || findSettings(opt.Dir, []string{".gemini", "**/.gemini/.env", "**/.env", ".agents", "GEMINI.md"}) == ""
	return []string{"GEMINI_CLI_TRUST_WORKSPACE=" + strconv.FormatBool(trusted)}
}
