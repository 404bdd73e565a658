//go:build !linux

package main

import (
	"errors"
	"time"
)

var errNoProc = errors.New("processes are looked up in /proc, which this system lacks")

type process struct {
	pid, parent int
	args        []string
}

func (p process) supervises() bool { return false }

func processes(string) ([]process, error) { return nil, errNoProc }

func cpuTime([]int) (time.Duration, error) { return 0, errNoProc }

func memory(int) (int, error) { return 0, errNoProc }
