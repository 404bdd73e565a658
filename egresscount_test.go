package runnel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A program chooses hosts and ports, so it must not choose how many decisions are
// recorded.
func TestEgressDecisionsOfRulesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var decided []string
		judge := func(_ context.Context, a event.Approval) (runnel.Decision, bool) {
			d := runnel.Decision{Choice: "allow_once", Maker: runnel.Maker{Name: "rules", Rule: 3}}
			if strings.Contains(a.Title, "evil") {
				d.Choice, d.Maker.Rule = "deny", 4
			}
			return d, true
		}
		p, s, _ := openNetted(t, runnel.Config{Judge: judge, Decided: func(d runnel.Decided) {
			decided = append(decided, fmt.Sprint(d.Turn != "", " ", d.Approval.Title, " ", d.Resolved.Choice, " ", d.Maker.Name, " ", d.Maker.Rule))
		}}, runnel.Options{})
		flood := func() {
			t.Helper()
			for range 2 { // the same hosts count no more the second time than further ones
				for i := range 1100 {
					<-p.connect(t.Context(), fmt.Sprintf("h%d.example.com", i))
					if i%11 == 0 {
						<-p.connect(t.Context(), fmt.Sprintf("h%d.evil.example", i))
					}
				}
			}
			synctest.Wait()
			if len(decided) != 50 {
				t.Errorf("%d decisions", len(decided))
			}
		}
		rest := func(turn bool) {
			t.Helper()
			synctest.Wait()
			want := []string{ // 45 hosts and 5 evil ones have entries of their own
				fmt.Sprint(turn, " Reach hosts in 2110 more connections allow_once rules 0"),
				fmt.Sprint(turn, " Reach hosts in 190 more connections deny rules 0"),
			}
			if diff := cmp.Diff(want, decided[50:]); diff != "" {
				t.Error(diff)
			}
			decided = nil
		}
		flood()
		_ = s.Cancel(t.Context())
		rest(true)
		flood() // between turns
		between := decided
		decided = nil
		send(t, s)
		synctest.Wait()
		flood()
		_ = s.Cancel(t.Context())
		rest(true)
		decided = between
		_ = s.Close()
		rest(false)
	})
}
