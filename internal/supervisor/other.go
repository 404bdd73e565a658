//go:build !linux

package supervisor

import (
	"context"
	"errors"

	"github.com/runnel-dev/runnel/internal/proc"
)

func supported() bool { return false }

// ErrNone means that no supervisor to take over from is running.
var ErrNone = errors.New("supervisor: none is running")

// Main does nothing on this system except to record the call.
func Main() { enabled.Store(true) }

func launch(ctx context.Context, c proc.Command, _ Takeover) (Agent, error) {
	p, err := proc.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return direct{p, c.Limits}, nil
}

// Attach always returns ErrNone on this system.
func Attach(Takeover, func([]byte) []byte) (Agent, *Backlog, error) { return nil, nil, ErrNone }

// End does nothing: this system has no supervisors.
func End(Takeover) error { return nil }

// Names returns no names: this system has no supervisors.
func Names(string) ([]string, error) { return nil, nil }
