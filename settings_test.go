package runnel_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// planModeRejecter is an agent that does not start in mode plan. It records the
// modes in which it was started.
type planModeRejecter struct {
	runnel.Provider
	modes []runnel.PermissionMode
}

func (a *planModeRejecter) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	a.modes = append(a.modes, opt.PermissionMode)
	if opt.PermissionMode == runnel.ModePlan {
		return nil, runnel.Fail(runnel.InvalidRequest, "no plans")
	}
	return a.Provider.Open(ctx, opt)
}

func speaker() runnel.Provider {
	return &script.Provider{Script: script.Script{Steps: []script.Step{{Text: "Done."}}}}
}

func TestPromptThatTheLogRefusesLeavesSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, agent := new(failing), &planModeRejecter{Provider: speaker()}
		var changes []runnel.Settings
		s, err := runnel.Open(t.Context(), agent, runnel.Options{PermissionMode: runnel.ModeDefault},
			runnel.Config{ID: "s", Log: log, Changed: func(set runnel.Settings) { changes = append(changes, set) }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		log.set(errors.New("disk on fire"))
		if _, err := s.SendWith(t.Context(), runnel.Text("x"), runnel.Settings{PermissionMode: runnel.ModeAcceptEdits}); runnel.CodeOf(err) != runnel.StoreUnavailable {
			t.Fatal(err)
		}
		log.set(nil)
		if _, err := send(t, s).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if mode := s.Status().PermissionMode; mode != "default" || len(changes) > 0 {
			t.Errorf("the mode is %q; changes %+v", mode, changes)
		}
		if want := []runnel.PermissionMode{"default", "default"}; !slices.Equal(agent.modes, want) {
			t.Errorf("started in %q, want %q", agent.modes, want)
		}
	})
}

// The agent starts with the settings of its session, not with those of the
// turn, so settings of a turn cannot prevent the start.
func TestAgentStartsWithTheSettingsOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := &planModeRejecter{Provider: speaker()}
		var changes []runnel.Settings
		s, err := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{Dormant: true, Changed: func(set runnel.Settings) { changes = append(changes, set) }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		turn, err := s.SendWith(t.Context(), runnel.Text("x"), runnel.Settings{PermissionMode: runnel.ModePlan, Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCompleted {
			t.Fatalf("%+v, %v", res, err)
		}
		if mode := s.Status().PermissionMode; mode != "default" || len(changes) > 0 || !slices.Equal(agent.modes, []runnel.PermissionMode{""}) {
			t.Errorf("the mode is %q; changes %+v; started in %q", mode, changes, agent.modes)
		}
	})
}
