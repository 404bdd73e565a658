//go:build !linux

package main

import "os"

// isPrivate accepts every channel: there is no /proc through which an agent
// could open a pipe.
func isPrivate(*os.File) bool { return true }
