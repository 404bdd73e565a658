//go:build !linux

package main

import "os"

// isPrivate accepts every channel. Without Linux's /proc an agent cannot open a
// pipe of another process.
func isPrivate(*os.File) bool { return true }
