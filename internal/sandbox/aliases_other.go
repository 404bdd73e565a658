//go:build !linux

package sandbox

// A mounted describes a mount. Only Linux has sandboxes.
type mounted struct{}

func mountTable() ([]mounted, error) { return nil, nil }

func aliases([]mounted, string) []string { return nil }
