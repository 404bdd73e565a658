package main

import (
	"fmt"
	"strconv"
	"strings"
)

// A number is one measured value of a row.
type number struct {
	Name      string   `json:"name,omitempty"` // unique in its row; may be empty if the row has one number
	Value     float64  `json:"value"`
	Unit      string   `json:"unit,omitempty"`
	Better    better   `json:"better"`
	Target    *float64 `json:"target,omitempty"`    // nil if the number only informs
	NoiseFree bool     `json:"noiseFree,omitempty"` // a busy machine measures the same
	Margin    float64  `json:"margin,omitempty"`    // part of the value by which it may get worse before the gate fails
}

// better is the direction in which a number improves.
type better string

const (
	betterLower  better = "lower"
	betterHigher better = "higher"
)

func lower(name string, value float64, unit string) number {
	return number{Name: name, Value: rounded(value), Unit: unit, Better: betterLower}
}

func higher(name string, value float64, unit string) number {
	return number{Name: name, Value: rounded(value), Unit: unit, Better: betterHigher}
}

func atMost(name string, value float64, unit string, target float64) number {
	n := lower(name, value, unit)
	n.Target = &target
	return n
}

func atLeast(name string, value float64, unit string, target float64) number {
	n := higher(name, value, unit)
	n.Target = &target
	return n
}

// ratioUnit begins the unit of a number that is a ratio to a peer.
const ratioUnit = "× "

// ratioMargin is the margin of a ratio. Two runs of one build differ by up to
// 15 %.
const ratioMargin = 0.15

// ratioAtMost returns the ratio of ours to the value of a peer. The result has
// no unit if the peer was not measured; keep then leaves it out.
func ratioAtMost(name string, ours, peer float64, of string, target float64) number {
	if peer == 0 {
		return number{}
	}
	n := atMost(name, ours/peer, ratioUnit+of, target)
	n.Margin = ratioMargin
	return n
}

// ratioAtLeast is ratioAtMost for a ratio that should be high.
func ratioAtLeast(name string, ours, peer float64, of string, target float64) number {
	n := ratioAtMost(name, ours, peer, of, target)
	if n.Better != "" {
		n.Better = betterHigher
	}
	return n
}

// keep returns the numbers that were measured.
func keep(numbers ...number) (out []number) {
	for _, n := range numbers {
		if n.Better != "" {
			out = append(out, n)
		}
	}
	return out
}

// noiseFree marks a number that the gate compares in every run.
func (n number) noiseFree(margin float64) number {
	n.NoiseFree, n.Margin = true, margin
	return n
}

func (n number) isRatio() bool { return strings.HasPrefix(n.Unit, ratioUnit) }

// label distinguishes the number from the others of its row.
func (n number) label() string {
	if n.isRatio() {
		return strings.TrimSpace(n.Name + " " + n.Unit)
	}
	return n.Name
}

// limit returns the target as text, as in "p50 ≤ 0.9× sandbox-agent".
func (n number) limit() string {
	sign, unit := "≤ ", n.Unit
	if n.Better == betterHigher {
		sign = "≥ "
	}
	if *n.Target == 0 {
		sign = ""
	}
	if unit != "" && !n.isRatio() {
		unit = " " + unit
	}
	return strings.TrimSpace(n.Name + " " + sign + short(*n.Target) + unit)
}

// missed returns by how much the number misses its target, as in "by 2.5×", and
// whether it does. A number without target misses none.
func (n number) missed() (by string, missed bool) {
	if n.Target == nil {
		return "", false
	}
	worse, limit := n.Value, *n.Target
	if n.Better == betterHigher {
		worse, limit = limit, worse
	}
	switch {
	case worse <= limit:
		return "", false
	case limit > 0:
		return "by " + short(worse/limit) + "×", true
	case n.Better == betterLower:
		return "by " + short(worse), true
	}
	return "", true
}

// rounded returns v with at most five digits, so that a table shows what was
// measured and no more.
func rounded(v float64) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
	if err != nil {
		return v
	}
	return out
}

// short formats v with at most three digits, but never as another integer and
// never as 1 if it is not 1.
func short(v float64) string {
	if v >= 1000 {
		return thousands(v)
	}
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if text == "1" && v != 1 {
		text = strconv.FormatFloat(v, 'g', 4, 64)
	}
	return text
}

// target returns the row's targets as text.
func (w row) target() string {
	text := w.Target
	for _, n := range w.Numbers {
		if n.Target != nil {
			text = join(text, n.limit())
		}
	}
	return text
}

const (
	unmeasured = "not measured"
	partFailed = "failed"
)

// verdict compares the row's numbers with their targets.
func (w row) verdict() string {
	var misses []string
	targets := 0
	for _, n := range w.Numbers {
		if n.Target == nil {
			continue
		}
		targets++
		if by, missed := n.missed(); missed {
			misses = append(misses, strings.TrimSpace(n.Name+" "+by))
		}
	}
	switch {
	case targets == 0 && w.Ours == partFailed:
		return partFailed
	case targets == 0 && w.Target != "": // the row or its peer was not measured
		return unmeasured
	case targets == 0:
		return "no target"
	case len(misses) == 0:
		return "met"
	case targets == 1:
		by, _ := w.only().missed()
		return strings.TrimSpace("missed " + by)
	}
	return "missed: " + strings.Join(misses, ", ")
}

// only returns the first number with a target.
func (w row) only() number {
	for _, n := range w.Numbers {
		if n.Target != nil {
			return n
		}
	}
	return number{}
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", v*100) }
