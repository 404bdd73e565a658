//go:build unix && !linux

package private

func unmapped() int { return -1 }
