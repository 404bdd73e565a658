//go:build !linux

package main

import (
	"context"
	"errors"
	"time"
)

var errNoProc = errors.New("processes are looked up in /proc, which this system lacks")

type process struct {
	pid     int
	program string
	args    []string
}

func (p process) supervises() bool { return false }

func (*workspace) processes() ([]process, error) { return nil, errNoProc }

func cpuTime([]int) (time.Duration, error) { return 0, errNoProc }

func contextSwitches([]int) (int, error) { return 0, errNoProc }

type writing struct{ writes, written, stored int }

func diskIO([]int) (writing, error) { return writing{}, errNoProc }

func noProc() string { return errNoProc.Error() }

func cannotCount() string { return "writes are counted only on Linux" }

func cannotTrace() string { return "system calls are counted only on Linux" }

func traceCalls(context.Context, []int) (func() (int, error), error) { return nil, errNoProc }

func memory(int) (resident, own int, err error) { return 0, 0, errNoProc }

func tree(int) ([]int, error) { return nil, errNoProc }

func proportional(int) (int, error) { return 0, errNoProc }

func supervises(int) bool { return false }

func encloses(int) bool { return false }
