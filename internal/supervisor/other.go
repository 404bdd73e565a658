//go:build !linux

package supervisor

import (
	"context"
	"errors"

	"github.com/runnel-dev/runnel/internal/proc"
)

func supported() bool { return false }

// ErrNone means that there is no supervisor to take over from.
var ErrNone = errors.New("supervisor: none is there")

// Main does nothing here.
func Main() { enabled.Store(true) }

func launch(ctx context.Context, c proc.Command, _ Keep) (Agent, error) {
	p, err := proc.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return direct{p}, nil
}

// Attach fails with ErrNone.
func Attach(Keep, func([]byte) []byte) (Agent, *Backlog, error) { return nil, nil, ErrNone }

// End does nothing: there is none.
func End(Keep) error { return nil }

// Names returns nothing: there is none.
func Names(string) ([]string, error) { return nil, nil }
