//go:build linux

package hostile

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testapi"
)

// untypical is a key that does not look like any known kind of key.
const untypical = "gateway.Vq7RzT2mXw9LkB4n"

// hides waits for the end of a turn in which the agent writes its key. The
// agent's message must have "[redacted]" instead, and no file of the data
// directory may contain the key.
func (w *world) hides(c *testapi.Client, turn, key string) {
	w.t.Helper()
	c.End(turn)
	told := ""
	for _, ev := range c.Events {
		if b, ok := ev.Body.(event.ItemDone); ok && ev.Turn == turn {
			if m, ok := b.FinalItem.(event.Message); ok && strings.Contains(m.Content, "It is ") {
				told = m.Content
			}
		}
	}
	if !strings.Contains(told, "[redacted]") || strings.Contains(told, key) {
		w.t.Errorf("the agent's message is %q", told)
	}
	if found := w.holders(key); found != nil {
		w.t.Errorf("the key is in %v", found)
	}
}

// keyed configures the world's agents to use a key from a file.
func (w *world) keyed() {
	w.t.Helper()
	file, config := filepath.Join(w.dir, "key"), filepath.Join(w.dir, "config.yaml")
	for path, text := range map[string]string{
		file:   untypical + "\n",
		config: "agents:\n  claude-code:\n    auth: api-key\n    apiKeyFile: " + file + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	w.flags = append(w.flags, "--config", config)
}

// inEights calls f with the numbers below n, up to eight times at once.
func inEights(n int, f func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}

// TestKeyOfAgentThatIsTakenOverIsHidden checks that a server redacts the key of
// an agent that it has taken over. This server has not read the key to start
// the agent.
func TestKeyOfAgentThatIsTakenOverIsHidden(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.keyed()
	w.start()
	c := w.Follow(w.create())
	turn := c.Send(plan{Deltas: 40, Pace: 100 * time.Millisecond, Print: "ANTHROPIC_API_KEY"}.prompt())
	c.Until("beginning of the text", func(ev event.Event) bool { _, ok := ev.Body.(event.ItemDelta); return ok && ev.Turn == turn })
	w.kill()
	w.start()
	if !w.says("agent taken over", 1) {
		t.Fatal("the agent was not taken over")
	}
	w.hides(c, turn, untypical)
}

// TestKeyStaysHiddenAfterManyCredentials creates more tokens than the redactor
// remembers. They must not displace the agent's key.
func TestKeyStaysHiddenAfterManyCredentials(t *testing.T) {
	for name, from := range map[string]func(w *world){
		"file":     func(w *world) { w.keyed() },
		"variable": func(w *world) { w.under = []string{"/usr/bin/env", "ANTHROPIC_API_KEY=" + untypical} },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "variable" && !long() {
				t.Skip("test/guardrails hides a key from a variable: RUNNEL_LONG=1")
			}
			w := newWorld(t, nil, "60s")
			from(w)
			w.start()
			c := w.Follow(w.create())
			prompt := plan{Deltas: 1, Print: "ANTHROPIC_API_KEY"}.prompt()
			w.hides(c, c.Send(prompt), untypical)
			admin := testapi.Server{T: t, Addr: w.Addr, Token: w.runnel("token", "create", "admin", "--scope", "read,admin", "--data", w.data)}
			inEights(530, func(n int) {
				if code, _ := admin.Call("POST", "/api/tokens", object{"name": fmt.Sprint("job ", n), "scopes": []string{"read"}}, nil); code != http.StatusCreated {
					t.Errorf("token %d: %d", n, code)
				}
			})
			w.hides(c, c.Send(prompt), untypical)
		})
	}
}
