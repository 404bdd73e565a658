package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestGateNamesWhatGotWorse(t *testing.T) {
	tab := func(numbers ...number) *table {
		return &table{Rows: []row{{Part: "counts", ID: "counts/SSE", What: "counts", Numbers: numbers}}}
	}
	calls := func(v float64) number { return lower("calls", v, "").noiseFree(0.1) }
	of := func(v float64) number { return ratioAtMost("p50", v, 1, "sandbox-agent", 0.9) }
	for _, tt := range []struct {
		name     string
		old, now *table
		ratios   bool
		want     []string
	}{
		{"the same", tab(calls(10)), tab(calls(10)), false, nil},
		{"within the margin", tab(calls(10)), tab(calls(10.9)), false, nil},
		{"beyond the margin", tab(calls(10)), tab(calls(11.5)), false,
			[]string{"counts/SSE, calls: 11.5, was 10: worse by 15 %, margin 10 %"}},
		{"better", tab(calls(10)), tab(calls(2)), false, nil},
		{"less of what should be high", tab(higher("rate", 100, "").noiseFree(0.1)), tab(higher("rate", 80, "").noiseFree(0.1)), false,
			[]string{"counts/SSE, rate: 80, was 100: worse by 20 %, margin 10 %"}},
		{"from zero", tab(calls(0)), tab(calls(1)), false, []string{"counts/SSE, calls: 1, was 0: worse, margin 10 %"}},
		{"the committed margin counts", tab(calls(10)), tab(lower("calls", 15, "").noiseFree(9)), false,
			[]string{"counts/SSE, calls: 15, was 10: worse by 50 %, margin 10 %"}},
		{"a time is not compared", tab(lower("p50", 1, "ms")), tab(lower("p50", 9, "ms")), true, nil},
		{"a ratio only if asked", tab(of(1)), tab(of(2)), false, nil},
		{"a ratio", tab(of(1)), tab(of(2)), true, []string{"counts/SSE, p50 × sandbox-agent: 2, was 1: worse by 100 %, margin 15 %"}},
		{"a number that is gone", tab(calls(10)), tab(), false, []string{"counts/SSE, calls: not measured any more, was 10"}},
		{"a new number", tab(), tab(calls(10)), false, nil},
		{"a part that did not run", tab(calls(10)), &table{}, false, nil},
	} {
		if got := compare(tt.old, tt.now, tt.ratios, 1); !slices.Equal(got.worse, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got.worse, tt.want)
		}
	}
}

func TestGateSkipsWhatThisMachineCannotMeasure(t *testing.T) {
	old := &table{Rows: []row{{Part: "counts", ID: "counts/calls", Numbers: []number{lower("calls", 10, "").noiseFree(0.1)}}}}
	now := &table{Rows: []row{{Part: "counts", ID: "counts/calls", Ours: unmeasured, Note: "strace is not installed"}}}
	got := compare(old, now, false, 1)
	if len(got.worse) > 0 || !slices.Equal(got.skipped, []string{"counts/calls: strace is not installed"}) {
		t.Errorf("%+v", got)
	}
}

func TestGateTakesTheBetterOfTwoRuns(t *testing.T) {
	tab := func(a, b float64) *table {
		return &table{Rows: []row{{Part: "counts", ID: "counts/calls", Numbers: []number{lower("WebSocket", a, "").noiseFree(0.1), higher("rate", b, "").noiseFree(0.1)}}}}
	}
	now := tab(20, 50)
	now.improve(tab(10, 40))
	if got := compare(tab(10, 100), now, false, 1); !slices.Equal(got.worse, []string{"counts/calls, rate: 50, was 100: worse by 50 %, margin 10 %"}) {
		t.Errorf("%q", got.worse)
	}
}

func TestGateSaysWhenTheTableIsTooGood(t *testing.T) {
	tab := func(v float64) *table {
		return &table{Rows: []row{{Part: "counts", ID: "counts/calls", Numbers: []number{lower("calls", v, "").noiseFree(0.1)}}}}
	}
	if got := compare(tab(10), tab(5), false, 1); !slices.Equal(got.better, []string{"counts/calls, calls: 5, was 10"}) {
		t.Errorf("%+v", got)
	}
}

func TestGateWidensMarginsOnABusyMachine(t *testing.T) {
	tab := func(v float64) *table {
		return &table{Rows: []row{{Part: "counts", ID: "counts/calls", Numbers: []number{lower("calls", v, "").noiseFree(0.1)}}}}
	}
	if got := compare(tab(10), tab(14.9), false, busySlack); len(got.worse) > 0 {
		t.Errorf("%q", got.worse)
	}
	if got := compare(tab(10), tab(16), false, busySlack); !slices.Equal(got.worse, []string{"counts/calls, calls: 16, was 10: worse by 60 %, margin 50 %"}) {
		t.Errorf("%q", got.worse)
	}
}

func TestPressureIsThePartOfTheTimeInWhichAProcessWaited(t *testing.T) {
	begun := time.Now()
	p := pressure{begun: begun, waited: 2 * time.Second}
	if got := p.shareAt(begun.Add(4*time.Second), 5*time.Second); got != 0.75 {
		t.Errorf("%v", got)
	}
	waited, err := parseWaited("some avg10=76.94 avg60=29.87 avg300=16.79 total=119694008\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n")
	if err != nil || waited != 119694008*time.Microsecond {
		t.Errorf("%v, %v", waited, err)
	}
	for _, bad := range []string{"", "full total=3\n", "some avg10=1\n", "some total=x\n"} {
		if _, err := parseWaited(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestMarginsWidenWithTheLoad(t *testing.T) {
	for share, want := range map[float64]float64{0: 1, 0.1: 1, 0.3: 3, 0.5: 5, 0.9: 5} {
		if got := slackAt(share); math.Abs(got-want) > 1e-9 {
			t.Errorf("at %g: %g, want %g", share, got, want)
		}
	}
}
