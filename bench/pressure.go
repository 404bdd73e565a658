package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"
)

// A pressure measures how busy the machine is, with all its processes.
type pressure struct {
	begun  time.Time
	waited time.Duration // until then, the time in which some process waited for a processor
}

// startPressure begins a measurement.
func startPressure() pressure {
	waited, err := readWaited()
	if err != nil {
		return pressure{}
	}
	return pressure{begun: time.Now(), waited: waited}
}

// share returns in which part of the time since the start some process waited
// for a processor. It is 0 on systems that do not count this.
func (p pressure) share() float64 {
	waited, err := readWaited()
	if err != nil || p.begun.IsZero() {
		return 0
	}
	return p.shareAt(time.Now(), waited)
}

func (p pressure) shareAt(now time.Time, waited time.Duration) float64 {
	return float64(waited-p.waited) / float64(now.Sub(p.begun))
}

// readWaited reads the count of Linux; other systems lack the file.
func readWaited() (time.Duration, error) {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0, err
	}
	return parseWaited(string(text))
}

// parseWaited returns the total of the line that begins with "some".
func parseWaited(text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		_, total, found := strings.Cut(line, " total=")
		if !found || !strings.HasPrefix(line, "some ") {
			continue
		}
		micros, err := strconv.ParseInt(strings.TrimSpace(total), 10, 64)
		return time.Duration(micros) * time.Microsecond, err
	}
	return 0, errors.New("no line begins with some and has a total")
}
