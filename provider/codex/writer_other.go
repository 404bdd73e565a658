//go:build !linux

package codex

import (
	"context"

	"github.com/runnel-dev/runnel"
)

// writer describes the process that has a conversation open, for an error. It
// does not find the process id on this system.
func writer(string, string) string { return "another Codex on this machine" }

// Writers implements [runnel.WriterFinder]. The owners of locks cannot be found
// on this system.
func (*Provider) Writers(context.Context) ([]runnel.Writer, bool) { return nil, false }
