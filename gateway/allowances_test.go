package gateway

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
)

// enclosable is a provider whose agent can run in a sandbox.
type enclosable struct{ *fake }

func (enclosable) Takes() runnel.Takes { return runnel.Takes{Sandbox: true} }

// slowExit is the connection to an agent that takes a second to exit.
type slowExit struct{ runnel.Conn }

func (c slowExit) Close() error {
	time.Sleep(time.Second) //nolint:forbidigo // virtual time
	return c.Conn.Close()
}

func TestAllowingAPathStopsTheAgentsAtTheSameTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has sandboxes")
	}
	home := canonical(t.TempDir())
	t.Setenv("HOME", home)
	project, data := filepath.Join(home, "project"), filepath.Join(home, "data")
	for _, dir := range []string{project, data} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		agent := &fake{name: "slow", open: func(o runnel.Options) (runnel.Conn, error) {
			o.Sandbox, o.Allowed = "", nil // the scripted agent has none
			conn, err := script.New().Open(t.Context(), o)
			return slowExit{conn}, err
		}}
		g := newDisk(t).open(t, func(c *Config) { c.Providers = []runnel.Provider{enclosable{agent}} })
		defer closeIt(t, g)
		var ids []string
		for range 5 {
			st, err := g.Create(t.Context(), "slow", project, runnel.Options{Sandbox: runnel.SandboxProject}, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Send(t.Context(), st.SessionID, Prompt{Text: "text"}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			ids = append(ids, st.SessionID)
		}
		began := time.Now()
		_, change, err := g.Approvals().AllowInSandbox(t.Context(), store.Rule{Effect: "allow", Kind: store.RuleSandboxRead, ProjectDir: project, Pattern: data})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(change.Stopped)
		slices.Sort(ids)
		if took := time.Since(began); took != time.Second || !slices.Equal(change.Stopped, ids) {
			t.Errorf("stopped %v of %v in %v", change.Stopped, ids, took)
		}
	})
}
