package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/runnel-dev/runnel/gateway/conversations"
)

func TestDoctorSaysHowChangesOfConversationsAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		events conversations.Events
		err    error
		status severity
		detail string
		fix    string
	}{
		"all":         {events: conversations.Events{Directories: 12}, status: fine, detail: "12 directories"},
		"too many":    {events: conversations.Events{Missing: []conversations.MissingEvents{{CLIType: "copilot", Left: 3000}}}, status: fine, detail: "copilot: 3000 directories are not watched"},
		"low limit":   {events: conversations.Events{Missing: []conversations.MissingEvents{{CLIType: "codex", Left: 1, Err: fmt.Errorf("add: %w", syscall.ENOSPC)}}}, status: warning, detail: "codex: 1 directory is not watched", fix: "max_user_watches"},
		"few users":   {err: fmt.Errorf("init: %w", syscall.EMFILE), status: warning, detail: "once a minute", fix: "max_user_instances"},
		"unsupported": {err: errors.ErrUnsupported, status: warning, detail: "once a minute"},
	} {
		f := eventsFinding(c.events, c.err)
		if f.Status != c.status || !strings.Contains(f.Detail, c.detail) || !strings.Contains(f.Fix, c.fix) || (c.fix == "") != (f.Fix == "") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
