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

// TestCheckpointHoldsAllThatATurnNeeds begins every turn of every recording a
// second time, from its checkpoint.
func TestCheckpointHoldsAllThatATurnNeeds(t *testing.T) {
	recordtest.AllCheckpoints(t, 20, eachRecording, newTranslator)
}

// mute is an agent of which only the past matters.
type mute struct{ supervisor.Agent }

func (mute) Stdout() io.Reader        { return strings.NewReader("") }
func (mute) Send([]byte, int64) error { return nil }

// TestRelivedIsWhatWasLived takes over from every recording: what was said and
// was due is as if nothing had happened.
func TestRelivedIsWhatWasLived(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		recordtest.Relive(t, section(a, "in"), newTranslator)
	})
}

// TestDetachEndsTheRecording: what reads the connection is told that nothing
// more comes, also where a recording waits for the agent's last words.
func TestDetachEndsTheRecording(t *testing.T) {
	if !supervise.Enabled() {
		t.Skip("agents get no supervisors here")
	}
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Skip(err)
	}
	keep := supervisor.Keep{Dir: t.TempDir(), Name: "one", Window: time.Minute}
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
	said := make(chan error, 1)
	go func() {
		_, err := c.Next(t.Context())
		said <- err
	}()
	if !c.Detach() {
		t.Fatal("not detached")
	}
	select {
	case err := <-said:
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the reader waits for ever")
	}
}

// lost is an agent that ended before it was answered.
type lost struct{ mute }

func (lost) Send([]byte, int64) error { return proc.ErrStdinClosed }

// TestRelivedAfterTheEnd: what an agent said while nobody was there is told,
// although it ended with a question of its own that was never answered.
func TestRelivedAfterTheEnd(t *testing.T) {
	kept := &supervisor.Backlog{Lines: []supervisor.Line{
		{Text: []byte(`{"type":"system","subtype":"init","session_id":"0192f0c1-0000-7000-8000-000000000001","model":"m"}` + "\n")},
		{Text: []byte(`{"type":"control_request","request_id":"r1","request":{"subtype":"unheard_of"}}` + "\n")},
	}}
	back, err := agentconn.New(lost{}, product, newTranslator(), runnel.Options{}).Relive(kept)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Events) == 0 {
		t.Error("nothing is told")
	}
}
