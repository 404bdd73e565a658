package main

import "testing"

func TestVerdictNamesEveryMissedTarget(t *testing.T) {
	for _, tt := range []struct {
		name string
		row  row
		want string
	}{
		{"met", row{Numbers: []number{atMost("p50", 4, "ms", 5)}}, "met"},
		{"exactly the target", row{Numbers: []number{atMost("p50", 5, "ms", 5)}}, "met"},
		{"one of one missed", row{Numbers: []number{atMost("calls", 44, "", 8)}}, "missed by 5.5×"},
		{"too low", row{Numbers: []number{atLeast("events/s", 10, "", 20)}}, "missed by 2×"},
		{"nothing at all", row{Numbers: []number{atLeast("events/s", 0, "", 20)}}, "missed"},
		{"a target of zero", row{Numbers: []number{atMost("lost", 3, "", 0)}}, "missed by 3"},
		{"one of two missed", row{Numbers: []number{atMost("p50", 4, "ms", 5), atMost("p99", 12, "ms", 5)}}, "missed: p99 by 2.4×"},
		{"two missed", row{Numbers: []number{atMost("p50", 10, "ms", 5), atMost("lost", 3, "", 0)}}, "missed: p50 by 2×, lost by 3"},
		{"a small miss is visible", row{Numbers: []number{atMost("ratio", 1.004, "×", 1)}}, "missed by 1.004×"},
		{"a number without target", row{Numbers: []number{lower("p95", 9, "ms"), atMost("p99", 4, "ms", 5)}}, "met"},
		{"no target", row{Ours: "1", Numbers: []number{lower("p95", 9, "ms")}}, "no target"},
		{"not measured", row{Ours: unmeasured, Target: "≤ 5"}, "not measured"},
		{"its peer is missing", row{Ours: "1", Target: "≤ 1× peer", Numbers: []number{lower("p95", 9, "ms")}}, "not measured"},
		{"failed", row{Ours: partFailed}, "failed"},
	} {
		if got := tt.row.verdict(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTargetIsWrittenFromTheNumbers(t *testing.T) {
	for _, tt := range []struct {
		row  row
		want string
	}{
		{row{Numbers: []number{atMost("", 4, "MB", 22)}}, "≤ 22 MB"},
		{row{Numbers: []number{atLeast("", 4, "events/s", 20_000)}}, "≥ 20,000 events/s"},
		{row{Numbers: []number{atMost("lost", 0, "", 0), atMost("duplicated", 0, "", 0)}}, "lost 0; duplicated 0"},
		{row{Numbers: []number{lower("p50", 4, "ms"), ratioAtMost("p50", 2, 1, "sandbox-agent", 0.9), ratioAtMost("p99", 2, 1, "sandbox-agent", 1)}},
			"p50 ≤ 0.9× sandbox-agent; p99 ≤ 1× sandbox-agent"},
		{row{Target: "p50 ≤ 3× peer", Numbers: []number{lower("p50", 4, "ms")}}, "p50 ≤ 3× peer"},
	} {
		if got := tt.row.target(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestRatioWithoutPeerIsLeftOut(t *testing.T) {
	if got := ratioAtMost("p50", 2, 0, "sandbox-agent", 0.9); got.Name != "" {
		t.Errorf("%+v", got)
	}
	w := row{Numbers: keep(lower("p50", 2, "ms"), ratioAtMost("p50", 2, 0, "sandbox-agent", 0.9))}
	if len(w.Numbers) != 1 {
		t.Errorf("%+v", w.Numbers)
	}
}
