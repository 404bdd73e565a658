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

// A size defines how much each part measures.
type size struct {
	rounds   int   // measurements of each lane
	paced    int   // events of an answer at a steady rate
	bursts   []int // sizes of the bursts, in events
	kills    int
	sessions int // sessions without an agent
	starts   int // starts of the real agent
	firsts   int // turns whose first upsert is measured
	crowd    int // events of each of the sessions that run at the same time
	turns    int // turns of a long conversation
	stored   int // sessions in a filled data directory
	long     int // events of a long session
	idle     int // idle readers of one session
	searched int // size of the transcripts that are searched, in MB
	year     int // conversations that agents have stored in a year
	yearMB   int // size of their files
	indexed  int // events of the answer during which the search index grows
	counted  counted
	painted  int // events of an answer that a browser shows
	items    int // items of a long session
	micro    bool
}

var (
	full   = size{rounds: 5, paced: 10 * paced, bursts: []int{20_000, 50_000}, kills: 5, sessions: 150, starts: 9, firsts: 100, crowd: 10 * crowdRate, turns: 10, counted: counted{100, 400, 200, 4000}, painted: 3 * paced, items: longSession, stored: 10_000, long: 1_000_000, idle: 1000, searched: 1000, year: 10_000, yearMB: 1000, indexed: 20 * paced, micro: true}
	little = size{rounds: 1, paced: 60, bursts: []int{600}, kills: 1, sessions: 6, starts: 1, firsts: 3, crowd: crowdRate, turns: 2, counted: counted{10, 40, 20, 100}, painted: 60, items: 40, stored: 50, long: 20_000, idle: 20, searched: 2, year: 40, yearMB: 2, indexed: paced}
)

// A bench is one run of the benchmark.
type bench struct {
	w        *workspace
	size     size
	report   *report
	ours     subject  // the subject that is Runnel
	before   string   // path of an older build to compare with; may be empty
	pressure pressure // since the start of the measurement
}

// A part is a section of the benchmark. It adds rows to the report.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

func parts() []part {
	return []part{
		{"counts", (*bench).countsRows},
		{"latency", (*bench).gatewayLatency},
		{"burst", (*bench).gatewayBursts},
		{"crash", (*bench).gatewayCrashes},
		{"memory", (*bench).memoryRows},
		{"upsert", (*bench).upsertRow},
		{"turn", (*bench).turnRow},
		{"page", (*bench).pageRows},
		{"speed", (*bench).speedRows},
		{"many", (*bench).manyRows},
		{"sessions", (*bench).sessionRows},
		{"search", (*bench).searchRows},
		{"indexing", (*bench).indexingRow},
		{"conversations", (*bench).conversationRows},
		{"unopened", (*bench).unopenedRows},
		{"long", (*bench).longRows},
		{"readers", (*bench).readerRows},
		{"first", (*bench).firstDeltaRows},
		{"whole", (*bench).wholeRows},
		{"claude-acp", (*bench).claudeACPRows},
		{"prewarm", (*bench).prewarmRows},
		{"sandbox", (*bench).sandboxRows},
		{"codex", (*bench).codexRows},
		{"codex-load", (*bench).codexLoadRows},
		{"micro", (*bench).microRows},
		{"before", (*bench).beforeRows},
	}
}

func names() []string { return each(parts(), func(p part) string { return p.name }) }

// measure runs the parts named in only, separated by commas, or all parts if
// only is empty. program is the path of the runnel program to measure; if it is
// empty, measure builds one. A failed part adds a row with its error, and the
// other parts still run.
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
			b.report.add(row{What: p.name, ID: partFailed, Ours: partFailed, Note: strings.ReplaceAll(failed.Error(), "\n", " ")})
		}
		if ctx.Err() != nil {
			return err
		}
	}
	b.report.fact("load average at the end", loadAverage())
	return err
}

// partTime is the timeout of one part, in case a subject hangs. unopenedTime is
// that of the part that reads a year of conversations for the search.
const (
	partTime     = 25 * time.Minute
	unopenedTime = 90 * time.Minute
)

func (b *bench) runPart(ctx context.Context, p part) error {
	most := partTime
	if p.name == "unopened" {
		most = unopenedTime
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return errors.Join(p.run(b, ctx), b.w.sweep())
}

// gateways returns the servers that run the agent without a model, Runnel
// first. A peer that is not installed is left out, and the report names it.
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

// running starts the gateways, calls f and stops them.
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

// lanes returns a lane for each subject and each of its transports. Peers have
// SSE only.
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

// gatewayCrashes measures the gateways after kills. It does not use running,
// because each measurement starts and kills a server itself. The additional
// server keeps no agents for a restart.
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
