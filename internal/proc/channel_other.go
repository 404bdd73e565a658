//go:build !linux

package proc

import (
	"errors"
	"io"
	"os"
)

func inputChannel() (read, write *os.File, err error) { return os.Pipe() }

func newInput(f *os.File) io.WriteCloser { return f }

func duplicateOf(*os.File) (*os.File, error) {
	return nil, errors.New("an input that other processes keep open needs Linux")
}

func outputChannel() (read, write *os.File, err error) { return os.Pipe() }

func sharedChannel() (read, write *os.File, err error) {
	return nil, nil, errors.New("an output that other processes read needs Linux")
}

func newShared(f *os.File) output { return newStdout(f) } // unreachable: sharedChannel fails
