//go:build !linux && !darwin

package procinfo

func readBootID() string { return "" }
