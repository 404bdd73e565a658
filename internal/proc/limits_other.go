//go:build !linux

package proc

// EnableLimits fails if l has a limit: only Linux enforces limits.
func EnableLimits(l Limits) error { return CheckLimits(l) }

// CheckLimits returns the error of EnableLimits and changes nothing.
func CheckLimits(l Limits) error {
	if !l.any() {
		return nil
	}
	return &LimitsError{"limits of agents need cgroups (version 2), which only Linux has", "remove limits from the configuration"}
}
