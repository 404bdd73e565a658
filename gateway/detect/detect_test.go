package detect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/script"
)

// probed is a provider whose probe takes some time.
type probed struct {
	script.Provider
	name   string
	takes  time.Duration
	found  runnel.Installation
	asked  atomic.Int32
	before func() // before is called when a probe starts, and after when it ends
	after  func()
}

func (p *probed) Name() string { return p.name }

func (p *probed) Probe(ctx context.Context) runnel.Installation {
	p.asked.Add(1)
	if p.before != nil {
		p.before()
		defer p.after()
	}
	select {
	case <-time.After(p.takes):
		return p.found
	case <-ctx.Done():
		return runnel.Installation{Path: "/bin/" + p.name, Problem: "given up"}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a Detector of these providers, and a function that ends it.
func open(t *testing.T, ps ...runnel.Provider) (d *Detector, end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	d = New(ctx, &work, ps)
	return d, func() {
		d.Close()
		cancel()
		work.Wait()
	}
}

func byType(list []Agent, name string) Agent {
	i := slices.IndexFunc(list, func(a Agent) bool { return a.CLIType == name })
	if i < 0 {
		return Agent{}
	}
	return list[i]
}

func TestSlowProbeNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yes := true
		quick := &probed{name: "quick", found: runnel.Installation{Installed: true, Version: "1", LoggedIn: &yes}}
		slow := &probed{name: "slow", takes: time.Hour}
		missing := &probed{name: "missing", found: runnel.Installation{Install: "get it", Problem: "not there"}}
		d, end := open(t, slow, quick, missing)
		defer end()
		synctest.Wait()
		if n := slow.asked.Load() + quick.asked.Load(); n != 0 {
			t.Errorf("%d were asked before anyone wanted to know", n)
		}
		ask := func(now bool) ([]Agent, time.Duration) {
			at := time.Now()
			return d.Agents(t.Context(), now), time.Since(at)
		}
		list, took := ask(false)
		if took != firstWait || len(list) != 3 || list[0].CLIType != "slow" {
			t.Fatalf("after %v: %+v", took, list)
		}
		if a := byType(list, "quick"); a.Checking || !a.Installed || a.Version != "1" || a.CheckedAt.IsZero() {
			t.Errorf("the quick one: %+v", a)
		}
		if a := byType(list, "slow"); !a.Checking || a.Installed || !a.CheckedAt.IsZero() || len(a.Capabilities) == 0 {
			t.Errorf("the slow one: %+v", a)
		}
		<-time.After(probeTimeout)
		list, took = ask(false)
		if a := byType(list, "slow"); took != 0 || a.Checking || !a.Installed || !strings.Contains(a.Problem, "Check again") {
			t.Errorf("after its time, in %v: %+v", took, a)
		}

		// A cached result is returned at once and refreshed in the background.
		<-time.After(problemMaxAge)
		list, took = ask(false)
		if a := byType(list, "missing"); took != 0 || !a.Checking || a.Install != "get it" {
			t.Errorf("in %v: %+v", took, a)
		}
		if a := byType(list, "quick"); a.Checking || quick.asked.Load() != 1 {
			t.Errorf("the quick one was asked %d times: %+v", quick.asked.Load(), a)
		}
		<-time.After(resultMaxAge)
		quick.found.Version = "2"
		if list, _ = ask(false); byType(list, "quick").Version != "1" {
			t.Error("somebody had to wait")
		}
		synctest.Wait()
		if list, _ = ask(false); byType(list, "quick").Version != "2" {
			t.Error("an old answer was never replaced")
		}

		// With refresh, Agents waits for the probe.
		quick.takes, quick.found.Version = 5*time.Second, "3"
		list, took = ask(true)
		if a := byType(list, "quick"); a.Version != "3" || took > refreshWait {
			t.Errorf("in %v: %+v", took, a)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		at := time.Now()
		if list = d.Agents(ctx, true); !byType(list, "quick").Checking || time.Since(at) != 0 {
			t.Errorf("a caller that has gone waited %v", time.Since(at))
		}
	})
}

func TestProbesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		var ps []runnel.Provider
		for i := range 10 {
			ps = append(ps, &probed{name: fmt.Sprintf("agent-%d", i), takes: time.Second,
				before: func() { most.Store(max(most.Load(), running.Add(1))) }, after: func() { running.Add(-1) }})
		}
		at := time.Now()
		list := All(t.Context(), ps)
		if most.Load() != maxProbes || time.Since(at) != 5*time.Second {
			t.Errorf("%d at a time, in %v", most.Load(), time.Since(at))
		}
		for _, a := range list {
			if a.Checking || a.CheckedAt.IsZero() {
				t.Errorf("not waited for: %+v", a)
			}
		}
	})
}

func TestConcurrentRefreshesShareOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &probed{name: "p", takes: time.Second}
		d, end := open(t, p)
		defer end()
		done := make(chan struct{}, 20)
		for range cap(done) {
			go func() { d.Agents(context.Background(), true); done <- struct{}{} }()
		}
		for range cap(done) {
			<-done
		}
		if p.asked.Load() != 1 {
			t.Errorf("asked %d times", p.asked.Load())
		}
	})
}

func TestAliasesLeadToOneAgent(t *testing.T) {
	a, b, c := &probed{name: "some"}, &probed{name: "some-acp"}, &probed{name: "some-other-acp"}
	ps := []runnel.Provider{b, c, a}
	index := NewIndex(ps)
	for _, agent := range All(t.Context(), ps) {
		for _, name := range append(agent.Aliases, agent.CLIType) {
			if p, err := index.Choose(name); err != nil || p.Name() != agent.CLIType {
				t.Errorf("%s has the alias %q, which is %v", agent.CLIType, name, p)
			}
		}
	}
	if p := index.Find("some_acp"); p != b {
		t.Errorf("some_acp is %v", p)
	}
	if p, err := index.Choose(""); err != nil || p != b {
		t.Errorf("the default is %v, %v", p, err)
	}
	if _, err := index.Choose("none"); runnel.CodeOf(err) != runnel.UnsupportedCLIType {
		t.Errorf("an unknown name: %v", err)
	}
}
