package runnel_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
)

// modelRecorder is an agent that records the models with which it was started.
type modelRecorder struct {
	runnel.Provider
	models []string
}

func (a *modelRecorder) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	a.models = append(a.models, opt.Model)
	return a.Provider.Open(ctx, opt)
}

func TestRenewedOptionsCountForTheNextAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := &modelRecorder{Provider: speaker()}
		var changes []runnel.Settings
		s, err := runnel.Open(t.Context(), agent, runnel.Options{Model: "a"}, runnel.Config{Changed: func(set runnel.Settings) { changes = append(changes, set) }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if ok, err := s.Renew(t.Context(), runnel.Options{Model: "b"}); ok || err != nil {
			t.Errorf("while an agent runs: %v, %v", ok, err)
		}
		if err := s.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ok, err := s.Renew(t.Context(), runnel.Options{PermissionMode: runnel.ModeBypass}); ok || runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("with a mode that the server does not allow: %v, %v", ok, err)
		}
		if ok, err := s.Renew(t.Context(), runnel.Options{Model: "c", PermissionMode: runnel.ModePlan}); !ok || err != nil {
			t.Errorf("without an agent: %v, %v", ok, err)
		}
		if st := s.Status(); st.ModelID != "c" || st.PermissionMode != "plan" {
			t.Errorf("status has %q, %q", st.ModelID, st.PermissionMode)
		}
		if _, err := send(t, s).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(agent.models, []string{"a", "c"}) {
			t.Errorf("started with %q", agent.models)
		}
		if len(changes) > 0 {
			t.Errorf("the session's own settings changed: %+v", changes)
		}
	})
}
