package codex

import (
	"bytes"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/realagents"
)

func TestC06_RepositoryThatMeansHarm(t *testing.T) {
	r := newRig(t)
	trap := r.SetTrap()
	r.Withstands(trap)
	for _, q := range r.Model.Requests() { // how a folder describes its skills is all that it reads
		rest := bytes.ReplaceAll(q.Body, []byte("evil: "+realagents.Memory), nil)
		if i := bytes.Index(rest, []byte(realagents.Memory)); i >= 0 {
			t.Errorf("the model was shown what the folder says: %.400s", rest[max(i-200, 0):])
		}
	}
	// The same folder, trusted: what it says counts.
	r.Opt.Trusted = true
	r.Open()
	tick := time.NewTicker(50 * time.Millisecond) // it is started beside the conversation
	defer tick.Stop()
	for deadline := time.Now().Add(patience); len(trap.Ran()) == 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("nothing ran in the folder that is trusted")
		}
	}
}
