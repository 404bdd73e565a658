package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// A size says how much is measured.
type size struct {
	rounds   int   // of lanes in turn
	paced    int   // events of a paced answer
	bursts   []int // events of each burst
	kills    int
	sessions int // without an agent
	starts   int // of the real agent
	firsts   int // first upserts of a turn
	crowd    int // events of each of many sessions
	turns    int // of a long conversation
	micro    bool
}

var (
	full   = size{rounds: 3, paced: 10 * paced, bursts: []int{20_000, 50_000}, kills: 5, sessions: 150, starts: 9, firsts: 100, crowd: 10 * crowdRate, turns: 10, micro: true}
	little = size{rounds: 1, paced: 60, bursts: []int{600}, kills: 1, sessions: 6, starts: 1, firsts: 3, crowd: crowdRate, turns: 2}
)

// A bench is one run.
type bench struct {
	w      *workspace
	size   size
	report *report
	ours   subject // of lanes: which of them is ours
	before string  // path of an older build to measure beside this one; may be empty
}

// A part of the run adds rows to the report.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

func parts() []part {
	return []part{
		{"latency", (*bench).gatewayLatency},
		{"burst", (*bench).gatewayBursts},
		{"crash", (*bench).gatewayCrashes},
		{"memory", (*bench).memoryRows},
		{"upsert", (*bench).upsertRow},
		{"turn", (*bench).turnRow},
		{"many", (*bench).manyRows},
		{"first", (*bench).firstDeltaRows},
		{"whole", (*bench).wholeRows},
		{"claude-acp", (*bench).claudeACPRows},
		{"prewarm", (*bench).prewarmRows},
		{"codex", (*bench).codexRows},
		{"codex-load", (*bench).codexLoadRows},
		{"micro", (*bench).microRows},
		{"before", (*bench).beforeRows},
	}
}

func names() []string { return each(parts(), func(p part) string { return p.name }) }

// measure runs all parts, or those that only names.
// Program is the one to measure, empty for one that is built here. A part that
// fails leaves a row that says so, and the others run.
func (b *bench) measure(ctx context.Context, only, program string, progress io.Writer) (err error) {
	var chosen []string
	if only != "" {
		chosen = strings.Split(only, ",")
	}
	for _, name := range chosen {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("there is no part %q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	if b.w, err = newWorkspace(ctx, program, progress); err != nil {
		return err
	}
	defer func() {
		if closeErr := b.w.close(); err == nil {
			err = closeErr
		}
	}()
	b.report.machine(b.w.root)
	for _, p := range parts() {
		if chosen != nil && !slices.Contains(chosen, p.name) {
			continue
		}
		b.report.part = p.name
		if failed := b.runPart(ctx, p); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.name, failed))
			b.report.add(row{what: p.name, ours: "failed", note: strings.ReplaceAll(failed.Error(), "\n", " ")})
		}
		if ctx.Err() != nil {
			return err
		}
	}
	b.report.fact("load average at the end", loadAverage())
	return err
}

// partTime bounds one part: something in it may hang for ever.
const partTime = 12 * time.Minute

func (b *bench) runPart(ctx context.Context, p part) error {
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	return errors.Join(p.run(b, ctx), b.w.sweep())
}

// gateways are the subjects that run the agent of ours, us first. A peer that
// is not installed is left out and the report says so.
func (b *bench) gateways() ([]subject, error) {
	ours, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return nil, err
	}
	b.ours = ours
	peer, err := newSandboxAgent(b.w)
	if errors.Is(err, fs.ErrNotExist) {
		b.absent("sandbox-agent")
		return []subject{ours}, nil
	}
	b.report.fact("sandbox-agent", b.w.peerVersion("sandbox-agent"))
	return []subject{ours, peer}, err
}

func (b *bench) absent(peer string) {
	b.report.fact(peer, "not measured: make bench installs it")
}

// running starts the gateways for f and stops them afterwards.
func (b *bench) running(ctx context.Context, f func([]subject) error) error {
	subjects, err := b.gateways()
	if err != nil {
		return err
	}
	for _, s := range subjects {
		if err := s.start(ctx); err != nil {
			return err
		}
		defer s.stop()
	}
	return f(subjects)
}

// lanes are the subjects with the transports that each has.
func (b *bench) lanes(subjects []subject, transports ...string) (out []lane) {
	for _, s := range subjects {
		for _, t := range transports {
			if s == b.ours || t == overSSE {
				out = append(out, lane{s, t})
			}
		}
	}
	return out
}

func (b *bench) gatewayLatency(ctx context.Context) error {
	return b.running(ctx, func(s []subject) error {
		return b.latencyRows(ctx, append(b.lanes(s, overWS, overSSE), lane{&bare{b.w}, overPipe}))
	})
}

func (b *bench) gatewayBursts(ctx context.Context) error {
	return b.running(ctx, func(s []subject) error { return b.burstRows(ctx, b.lanes(s, overWS, overSSE)) })
}

// gatewayCrashes starts servers of its own: each is killed many times.
func (b *bench) gatewayCrashes(ctx context.Context) error {
	subjects, err := b.gateways()
	if err != nil {
		return err
	}
	alone, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	alone.flags = []string{"--reattach-window=-1s"}
	return b.crashRows(ctx, append(b.lanes(subjects, overSSE), lane{alone, overSSE}))
}
