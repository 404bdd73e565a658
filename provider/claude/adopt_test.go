package claude

import (
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/internal/supervisor"
	"github.com/runnel-dev/runnel/supervise"
)

// The test translates every turn of every recording a second time, starting
// from the checkpoint before the turn.
func TestTurnFromCheckpointHasTheSameEvents(t *testing.T) {
	recordtest.AllCheckpoints(t, 20, eachRecording, newTranslator)
}

// silentAgent is an agent that prints nothing and accepts all input.
type silentAgent struct{ supervisor.Agent }

func (silentAgent) Stdout() io.Reader        { return strings.NewReader("") }
func (silentAgent) Send([]byte, int64) error { return nil }
func (silentAgent) Limits() proc.Limits      { return proc.Limits{} }

// The test adopts the agent of every recording. The events and the open
// requests must be those of the live session.
func TestAdoptedAgentHasTheSameEvents(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		recordtest.CheckTakeovers(t, section(a, "in"), newTranslator)
	})
}

// Next returns io.EOF after Detach, also if a tap records the connection.
func TestDetachEndsNext(t *testing.T) {
	if !supervise.Enabled() {
		t.Skip("agents get no supervisors here")
	}
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Skip(err)
	}
	keep := supervisor.Takeover{Dir: t.TempDir(), Name: "one", Window: time.Minute}
	a, err := supervisor.Start(t.Context(), proc.Command{Path: cat, Mark: "CLAUDE_CODE_" + proc.MarkSuffix}, keep)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := supervisor.End(keep); err != nil {
			t.Error(err)
		}
	}()
	c := agentconn.New(a, product, newTranslator(), runnel.Options{Tap: func(runnel.Dir, []byte) {}})
	ended := make(chan error, 1)
	go func() {
		_, err := c.Next(t.Context())
		ended <- err
	}()
	if !c.Detach() {
		t.Fatal("Detach returned false")
	}
	select {
	case err := <-ended:
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	case <-time.After(waitTimeout):
		t.Fatal("Next did not return")
	}
}

// endedAgent is an agent whose stdin is closed.
type endedAgent struct{ silentAgent }

func (endedAgent) Send([]byte, int64) error { return proc.ErrStdinClosed }

// Lines that an agent printed without a server are translated, although the
// agent has ended and its last request cannot be answered.
func TestAdoptTranslatesTheLinesOfAnEndedAgent(t *testing.T) {
	backlog := &supervisor.Backlog{Lines: []supervisor.Line{
		{Text: []byte(`{"type":"system","subtype":"init","session_id":"0192f0c1-0000-7000-8000-000000000001","model":"m"}` + "\n")},
		{Text: []byte(`{"type":"control_request","request_id":"r1","request":{"subtype":"unheard_of"}}` + "\n")},
	}}
	back, err := agentconn.New(endedAgent{}, product, newTranslator(), runnel.Options{}).RestoreBacklog(backlog)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Events) == 0 {
		t.Error("no events")
	}
}
