package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// noiseFreePart is the part that the gate measures by default.
const noiseFreePart = "counts"

// A comparison is what the gate found.
type comparison struct {
	worse   []string // each makes the gate fail
	better  []string // the committed table should be renewed
	slack   float64  // by how much each margin is multiplied
	skipped []string // rows that this machine cannot measure, with the reason
}

// compare compares a run with the committed table: the noise-free numbers, and
// with ratios set all that have a margin, such as ratios to peers. It leaves
// out the parts that did not run. The margins are those of the committed table,
// so a change cannot widen its own; slack multiplies them.
func compare(old, now *table, ratios bool, slack float64) comparison {
	c := comparison{slack: slack}
	ran := make(map[string]bool)
	rows := make(map[string]row)
	for _, w := range now.Rows {
		ran[w.Part] = true
		rows[w.ID] = w
	}
	for _, was := range old.Rows {
		if !ran[was.Part] {
			continue
		}
		is := rows[was.ID]
		if is.Ours == unmeasured {
			c.skipped = append(c.skipped, was.ID+": "+is.Note)
			continue
		}
		for _, n := range was.Numbers {
			if n.NoiseFree || ratios && n.Margin > 0 {
				c.number(was.ID, n, is)
			}
		}
	}
	return c
}

// improve replaces each number by that of another run if that is better. What
// disturbs a count on a busy machine makes it worse, and rarely twice.
func (t *table) improve(by *table) {
	for _, w := range t.Rows {
		for i, n := range w.Numbers {
			o, ok := by.number(w.ID, n.label())
			if ok && (n.Better == betterLower && o.Value < n.Value || n.Better == betterHigher && o.Value > n.Value) {
				w.Numbers[i].Value = o.Value
			}
		}
	}
}

// number compares one number of the committed table with the same number of a
// row measured now.
func (c *comparison) number(id string, was number, in row) {
	name, margin := id, was.Margin*c.slack
	if was.label() != "" {
		name += ", " + was.label()
	}
	for _, is := range in.Numbers {
		if is.label() != was.label() {
			continue
		}
		by := is.Value - was.Value
		if was.Better == betterHigher {
			by = -by
		}
		text := fmt.Sprintf("%s: %g, was %g", name, is.Value, was.Value)
		switch {
		case was.Value == 0 && by > 0:
			c.worse = append(c.worse, fmt.Sprintf("%s: worse, margin %s", text, percent(margin)))
		case by > was.Value*margin:
			c.worse = append(c.worse, fmt.Sprintf("%s: worse by %s, margin %s", text, percent(by/was.Value), percent(margin)))
		case -by > was.Value*margin:
			c.better = append(c.better, text)
		}
		return
	}
	c.worse = append(c.worse, fmt.Sprintf("%s: not measured any more, was %g", name, was.Value))
}

// pass compares the run with the committed table. If a noise-free number got
// worse, it measures once more and takes the better value.
func (b *bench) pass(ctx context.Context, o options, stdout, stderr io.Writer) error {
	now, slack := &b.report.table, b.slack(o)
	c := compare(b.report.committed, now, o.ratios, slack)
	if len(c.worse) > 0 && !o.ratios {
		b.w.logf("measuring once more, because these are worse than in the committed table: %s", strings.Join(c.worse, "; "))
		again := &bench{size: b.size, before: b.before, report: &report{started: time.Now(), committed: b.report.committed}}
		if err := again.measure(ctx, o.only, o.program, stderr); err != nil {
			return err
		}
		now.improve(&again.report.table)
		slack = max(slack, b.slack(o)) // of the whole time, with the second measurement
		c = compare(b.report.committed, now, false, slack)
	}
	return c.print(stdout)
}

// idleShare, busyShare and busySlack make the gate usable beside other work. A
// process that waits for a processor falls behind, so the next event finds it on
// another path, with other counts: allocations and system calls rose by up to
// three fifths. A gate that runs alone is strict.
const (
	idleShare = 0.1 // part of the time in which some process waited for a processor
	busyShare = 0.5
	busySlack = 5
)

// slack returns by how much the margins are multiplied, and logs why.
func (b *bench) slack(o options) float64 {
	share := b.pressure.share()
	slack := slackAt(share)
	if slack == 1 || o.ratios {
		return 1
	}
	b.w.logf("the machine was busy: processes waited for a processor in %s of the time, so each margin counts %.1f times; make bench-gate on an idle machine is strict", percent(share), slack)
	return slack
}

// slackAt returns 1 up to idleShare, busySlack from busyShare on, and what is
// between them in proportion.
func slackAt(share float64) float64 {
	part := (share - idleShare) / (busyShare - idleShare)
	return 1 + (busySlack-1)*max(0, min(1, part))
}

// print prints what does not make the gate fail. It returns an error if
// something got worse.
func (c comparison) print(out io.Writer) error {
	var b strings.Builder
	for _, s := range c.skipped {
		b.WriteString("not compared: " + s + "\n")
	}
	for _, s := range c.better {
		b.WriteString("better than the table; renew it with make bench-renew: " + s + "\n")
	}
	_, err := io.WriteString(out, b.String())
	if len(c.worse) > 0 {
		return errors.Join(errors.New("worse than the committed table:\n  "+strings.Join(c.worse, "\n  ")+"\nif this is intended, renew the table with make bench-renew and commit it"), err)
	}
	return err
}
