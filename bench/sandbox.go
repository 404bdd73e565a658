package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// boxes are the sandboxes of the part "sandbox". The others are compared with
// the first.
var boxes = []string{"off", "files", "project"}

// What a sandbox may cost, as a ratio to none.
const (
	boxStart = 1.25 // of the time of a start
	boxEvent = 1.25 // of the time of an event
	boxCPU   = 1.5  // of the processor time of an event
)

// A boxed is a Runnel server whose sessions run in a sandbox.
type boxed struct {
	*runnel
	box string
}

// servers implements subject. Bubblewrap and the bridge of the sandbox count as
// parts of the server.
func (s boxed) servers() ([]int, error) {
	pids, err := s.runnel.servers()
	if err != nil {
		return nil, err
	}
	all, err := tree(s.daemon.pid())
	return append(pids, slices.DeleteFunc(all, func(pid int) bool { return !encloses(pid) })...), err
}

// sandboxRows compares the same agent without a sandbox and in each sandbox: its
// start, and its events with a model that is reached from the sandbox.
func (b *bench) sandboxRows(ctx context.Context) error {
	agent, err := b.w.realAgent()
	if err != nil {
		return b.notInstalled(err, "Claude Code in a sandbox", fmt.Sprintf("≤ %g× off", boxStart))
	}
	b.report.fact("agent", "Claude Code "+agent.version+" with a scripted model on loopback")
	m, err := startModel(ctx)
	if err != nil {
		return err
	}
	defer m.close()
	home, err := b.w.fresh("home")
	if err != nil {
		return err
	}
	s, err := newRunnel(b.w, agent.bin, modelEnviron(home, m.url)...)
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	var subjects []boxed
	for _, box := range boxes {
		in := *s
		in.options = object{"sandbox": box}
		if box == "project" {
			in.options["egress"] = object{"allow": []string{"localhost:" + m.url[strings.LastIndex(m.url, ":")+1:]}}
		}
		subjects = append(subjects, boxed{&in, box})
	}
	for _, in := range subjects { // warms up the file cache
		if _, _, err := firstThrough(ctx, in.runnel); err != nil {
			return fmt.Errorf("sandbox: %s: %w", in.box, err)
		}
	}
	if err := b.boxStarts(ctx, subjects); err != nil {
		return err
	}
	return b.boxEvents(ctx, subjects)
}

// boxStarts measures how long a session takes from its creation to its first
// event with text.
func (b *bench) boxStarts(ctx context.Context, subjects []boxed) error {
	took := make(map[string][]time.Duration)
	for i := range b.size.starts {
		for _, in := range inOrder(subjects, i) {
			b.w.logf("start in sandbox: %s, %d of %d", in.box, i+1, b.size.starts)
			cold, _, err := firstThrough(ctx, in.runnel)
			if err != nil {
				return fmt.Errorf("sandbox: %s: %w", in.box, err)
			}
			took[in.box] = append(took[in.box], cold)
		}
	}
	b.boxRow(row{ID: "start", What: "Claude Code: create the session and send → first delta, by `sandbox`", Note: fmt.Sprintf("median of %d in turn", b.size.starts)}, boxStart, medianOf(took))
	return nil
}

// boxEvents measures deltas from the model, through the sandbox and the agent,
// to the client.
func (b *bench) boxEvents(ctx context.Context, subjects []boxed) error {
	times, cpu, lost := make(map[string][]time.Duration), make(map[string][]time.Duration), 0
	for i := range b.size.rounds {
		for _, in := range inOrder(subjects, i) {
			b.w.logf("events in sandbox: %s, round %d of %d", in.box, i+1, b.size.rounds)
			got, err := measureLatency(ctx, in, overSSE, b.size.paced, false)
			if err != nil {
				return fmt.Errorf("sandbox: %s: %w", in.box, err)
			}
			times[in.box], cpu[in.box] = append(times[in.box], got.p50), append(cpu[in.box], got.cpu)
			lost += got.lost
		}
	}
	note := fmt.Sprintf("median of %d in turn; %d lost", b.size.rounds, lost)
	if lost == 0 {
		note = fmt.Sprintf("median of %d in turn; nothing lost", b.size.rounds)
	}
	b.boxRow(row{ID: "event", What: fmt.Sprintf("model writes a delta → client has it, %d/s, SSE, through Claude Code and Runnel, by `sandbox`; p50", paced), Note: note}, boxEvent, medianOf(times))
	b.boxRow(row{
		ID: "cpu", What: fmt.Sprintf("processor time of server, supervisor, bubblewrap and bridge for 1,000 of these events at %d/s, by `sandbox`", paced),
		Note: "with the server's egress proxy, without the agent",
	}, boxCPU, medianOf(cpu))
	return nil
}

// boxRow adds a row with the value of each sandbox.
func (b *bench) boxRow(w row, target float64, values map[string]time.Duration) {
	none := values[boxes[0]]
	w.Peer = boxes[0] + " " + millis(none)
	for _, box := range boxes[1:] {
		w.Ours = join(w.Ours, box+" "+millis(values[box]))
		w.Peer += fmt.Sprintf("; ratio of %s %.3f", box, ratio(values[box], none))
		w.Numbers = append(w.Numbers, keep(lower(box, ms(values[box]), "ms"), ratioAtMost(box, ms(values[box]), ms(none), boxes[0], target))...)
	}
	b.report.add(w)
}

// inOrder returns the subjects, in reverse in every second round, so that none
// always follows the same other.
func inOrder(subjects []boxed, round int) []boxed {
	out := slices.Clone(subjects)
	if round%2 == 1 {
		slices.Reverse(out)
	}
	return out
}

func medianOf(all map[string][]time.Duration) map[string]time.Duration {
	out := make(map[string]time.Duration, len(all))
	for name, values := range all {
		out[name] = median(values)
	}
	return out
}
