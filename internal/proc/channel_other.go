//go:build !linux

package proc

import "os"

func inputChannel() (read, write *os.File, err error) { return os.Pipe() }

func outputChannel() (read, write *os.File, err error) { return os.Pipe() }
