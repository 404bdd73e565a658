//go:build linux

package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testapi"
)

// A probe tells an agent's program how to behave when the server runs the
// program to find its version, login or models. The program reads the probe
// from the file probeFile in its own folder.
type probe struct {
	At     string `json:"at"`     // the program starts the zoo if it has this argument
	Answer bool   `json:"answer"` // whether the program then responds
	Dir    string `json:"dir"`    // where the zoo writes its files
}

const probeFile = "probe"

// playProbe starts the zoo if args contain the probe's argument. It then blocks
// if the program must not respond.
func playProbe(args []string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(self), probeFile))
	if err != nil {
		return
	}
	var p probe
	if err := json.Unmarshal(b, &p); err != nil {
		panic(err)
	}
	if !slices.Contains(args, p.At) {
		return
	}
	cmd := exec.Command(self, "play-zoo", p.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if !p.Answer {
		stay(nil)
	}
	for {
		if _, err := os.Stat(filepath.Join(p.Dir, "zoo-open")); err == nil {
			return
		}
		<-time.After(time.Millisecond)
	}
}

// codexMain answers what the server asks Codex about itself, and lies in a
// session.
func codexMain(args []string) int {
	playProbe(args)
	if slices.Contains(args, "--version") {
		fmt.Println("codex-cli 0.169.0")
		return 0
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(in.Bytes(), &request) != nil || request.ID == nil || lie(request.ID, request.Method, in.Bytes()) {
			continue
		}
		fmt.Printf(`{"id":%s,"result":{}}`+"\n", request.ID)
	}
	return 0
}

// TestProbeLeavesNothingBehind has the programs of agents start processes that
// are hard to kill when the server asks for their version, login and models.
// None of the processes may remain.
func TestProbeLeavesNothingBehind(t *testing.T) {
	users(t, func(t *testing.T, user *syscall.Credential) {
		for _, asked := range []struct{ agent, at string }{{"claude", "--version"}, {"claude", "status"}, {"codex", "--version"}, {"codex", "app-server"}} {
			for name, end := range map[string]func(w *world){
				"answered":            nil,
				"server killed":       (*world).kill,
				"server asked to end": (*world).stop,
			} {
				t.Run(asked.agent+" "+asked.at+" "+name, func(t *testing.T) {
					if asked.agent == "codex" && asked.at == "--version" && !long() {
						t.Skip("as for claude: RUNNEL_LONG=1")
					}
					if asked.at == "status" && end != nil && !long() {
						t.Skip("the server asks as for --version: RUNNEL_LONG=1")
					}
					if user == nil && os.Getuid() == 0 && (asked.at != "--version" || end != nil) && !long() {
						t.Skip("as for a stranger: RUNNEL_LONG=1")
					}
					w := newWorld(t, user, "60s")
					codex := filepath.Join(filepath.Dir(w.agent()), "codex")
					copyFile(t, w.agent(), codex)
					w.own(codex)
					w.putJSON(filepath.Dir(w.agent()), probeFile, probe{At: asked.at, Answer: end == nil, Dir: w.project})
					w.start()
					ctx, leave := context.WithTimeout(t.Context(), testapi.Timeout)
					defer leave()
					answered := make(chan struct{})
					go func() {
						defer close(answered)
						w.askAgents(ctx, asked.agent, end == nil)
					}()
					var n int
					w.file("zoo-open", &n)
					if end != nil {
						end(w) // while a request waits for the probe
						leave()
					}
					<-answered
					t.Logf("empty after %v", w.empty(5*time.Second))
				})
			}
		}
	})
}

// TestNameOfTheProgramChangesNoCommand starts the program under the name that
// the program gives itself to look for user namespaces. The name alone must
// change nothing, because agents can start programs under any name.
func TestNameOfTheProgramChangesNoCommand(t *testing.T) {
	cmd := exec.Command(program, "version")
	cmd.Args[0], cmd.Env = "runnel-namespace-probe", []string{"HOME=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); len(out) == 0 || err != nil {
		t.Errorf("the program printed %q, and ended with %v", out, err)
	}
}

// askAgents requests the list of agents, for which the server runs the programs
// of all agents. If answers is true, the named agent must be listed with its
// version.
func (w *world) askAgents(ctx context.Context, name string, answers bool) {
	t := w.t
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+w.Addr+"/api/agents?refresh=1", nil)
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+w.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if answers {
			t.Error(err)
		}
		return
	}
	defer res.Body.Close()
	var list struct {
		Agents []struct {
			CLIType   string
			Installed bool
			Version   string
			Problem   string
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil && answers {
		t.Error(err)
	}
	for _, a := range list.Agents {
		if answers && (a.CLIType == name || a.CLIType == name+"-code") && (!a.Installed || a.Version == "") {
			t.Errorf("%+v", a)
		}
	}
}
