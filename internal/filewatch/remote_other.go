//go:build !linux

package filewatch

func isRemote(string) bool { return false }
