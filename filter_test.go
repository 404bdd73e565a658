package runnel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/redact"
	"github.com/runnel-dev/runnel/provider/script"
)

const filtered = "correct horse battery staple 17"

func filter(runnel.Options) runnel.Filter { return redact.New(filtered).Events() }

// TestFilterStandsBeforeTheLog makes an agent emit a secret word by word, and
// in one case exit in the middle of it. The log must not contain the secret.
func TestFilterStandsBeforeTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		steps []script.Step
		want  []string
	}{
		"done":  {[]script.Step{{Text: "it is " + filtered + ", you know"}}, []string{`"deltaContent":"it "`, `"deltaContent":"[redacted], "`, `"content":"it is [redacted], you know"`}},
		"crash": {[]script.Step{{Text: "it is correct "}, die}, []string{`"deltaContent":"correct "`, "PROCESS_CRASH"}},
		"error": {[]script.Step{{Fail: &event.Fault{Code: "AGENT_ERROR", Message: "no: " + filtered}}}, []string{"no: [redacted]"}},
		"tool":  {[]script.Step{{Tool: &script.Tool{Name: "Bash", Output: filtered}}}, []string{`"output":"[redacted]"`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := new(runnel.Memory)
				s, err := runnel.Open(t.Context(), &script.Provider{Script: script.Script{Steps: c.steps}}, runnel.Options{Filter: filter}, runnel.Config{ID: "s", Log: log})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				_, _ = send(t, s).Wait(t.Context())
				got := trace(t, log, "s")
				for _, want := range c.want {
					if !strings.Contains(got, want) {
						t.Errorf("the log lacks %s:\n%s", want, got)
					}
				}
				if strings.Contains(got, "battery") {
					t.Errorf("the log holds the secret:\n%s", got)
				}
			})
		})
	}
}

type secretive struct{ runnel.Provider }

func (secretive) Open(context.Context, runnel.Options) (runnel.Conn, error) {
	return nil, runnel.Fail(runnel.SessionCreateFailed, "the agent said "+filtered, errors.New("cause"))
}

func TestFilterChangesErrors(t *testing.T) {
	_, err := runnel.Open(t.Context(), secretive{&script.Provider{}}, runnel.Options{Filter: filter}, runnel.Config{})
	if runnel.CodeOf(err) != runnel.SessionCreateFailed || err.Error() != "SESSION_CREATE_FAILED: the agent said [redacted]" {
		t.Errorf("got %v", err)
	}
	if _, err = runnel.Open(t.Context(), secretive{&script.Provider{}}, runnel.Options{}, runnel.Config{}); !strings.Contains(err.Error(), filtered) {
		t.Errorf("without a filter: got %v", err)
	}
}

// promptRefuser rejects prompts with an error that contains text of the agent.
type promptRefuser struct{ *stubborn }

func (p promptRefuser) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	conn, err := p.stubborn.Open(ctx, opt)
	return promptRefuserConn{conn}, err
}

type promptRefuserConn struct{ runnel.Conn }

func (promptRefuserConn) Prompt(context.Context, string, runnel.Input) error {
	return runnel.Fail(runnel.AgentError, "the agent said "+filtered)
}

func TestFilterChangesTheEndOfARefusedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(runnel.Memory)
		s, err := runnel.Open(t.Context(), promptRefuser{newStubborn(0)}, runnel.Options{Filter: filter}, runnel.Config{ID: "s", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = send(t, s).Wait(t.Context())
		if got := trace(t, log, "s"); strings.Contains(got, filtered) || !strings.Contains(got, "the agent said [redacted]") || strings.Contains(err.Error(), filtered) {
			t.Errorf("%v\n%s", err, got)
		}
	})
}

func TestFilteredHistory(t *testing.T) {
	history := func(yield func(event.Event, error) bool) {
		for _, b := range []event.Body{
			event.ItemStart{ItemID: "t:1:0", ItemType: event.TypeMessage},
			event.ItemDelta{ItemID: "t:1:0", DeltaContent: "so " + filtered[:9]},
		} {
			if !yield(event.Event{Turn: "t", Body: b}, nil) {
				return
			}
		}
		yield(event.Event{}, errors.New(filtered))
	}
	var text string
	var last error
	for ev, err := range runnel.Filtered(filter(runnel.Options{}), history) {
		if d, ok := ev.Body.(event.ItemDelta); ok {
			text += d.DeltaContent
		}
		last = err
	}
	if text != "so "+filtered[:9] || last == nil || strings.Contains(last.Error(), filtered) {
		t.Errorf("got %q and %v", text, last)
	}
}
