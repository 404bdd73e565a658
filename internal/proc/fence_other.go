//go:build !linux && !windows

package proc

import "syscall"

// fence is unused: this system has neither cgroups nor job objects.
type fence struct{}

func (*fence) enclose(*syscall.SysProcAttr) {}
func (*fence) hold(int) error               { return nil }
func (*fence) note(*ExitStatus)             {}
func (*fence) where() string                { return "" }
func (*fence) kill()                        {}
func (*fence) close()                       {}
func endFence(string) (clear bool)          { return true }

// newFence returns nil. It fails if c has limits.
func newFence(c Command) (*fence, error) { return nil, CheckLimits(c.Limits) }

// CanFence reports whether children can get fences here.
func CanFence() bool { return false }
