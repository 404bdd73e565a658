package main

import (
	"fmt"
	"strings"

	"rsc.io/qr"
)

// quiet is the width of the light border that readers of QR codes need, in
// modules.
const quiet = 4

// Escape sequences around each line of a QR code. The colours are explicit,
// because readers need dark modules on light ground, whatever colours the
// terminal has.
const (
	blackOnWhite = "\x1b[38;5;16;48;5;231m"
	usualColours = "\x1b[0m"
)

// qrCode returns the lines of a QR code of text, for a terminal, and their
// width in cells. A cell has two modules, one above the other.
func qrCode(text string) (lines string, width int, err error) {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return "", 0, fmt.Errorf("make a QR code: %w", err)
	}
	dark := func(x, y int) int {
		if code.Black(x, y) { // false beyond the code
			return 1
		}
		return 0
	}
	cells := []string{" ", "▀", "▄", "█"}
	var b strings.Builder
	for y := -quiet; y < code.Size+quiet; y += 2 {
		b.WriteString(blackOnWhite)
		for x := -quiet; x < code.Size+quiet; x++ {
			b.WriteString(cells[dark(x, y)+2*dark(x, y+1)])
		}
		b.WriteString(usualColours + "\n")
	}
	return b.String(), code.Size + 2*quiet, nil
}
