//go:build !linux && !windows

package proc

import "syscall"

// fence is unused: this system has neither cgroups nor job objects.
type fence struct{}

func newFence(Command) *fence               { return nil }
func (*fence) enclose(*syscall.SysProcAttr) {}
func (*fence) hold(int) error               { return nil }
func (*fence) where() string                { return "" }
func (*fence) kill()                        {}
func (*fence) close()                       {}
func endFence(string) (clear bool)          { return true }

// CanFence reports whether children can get fences here.
func CanFence() bool { return false }
