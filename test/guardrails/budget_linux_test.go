package guardrails

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testprogram"
)

// spending is a prompt whose turn calls the model n times, each time with a
// tool, and uses about 1000 tokens of output each time.
func (w *world) spending(n int) string {
	tools := realagents.ToolsetOf(w.agent.Name)
	var steps []fakemodel.Step
	for range n - 1 {
		steps = append(steps, fakemodel.Step{Blocks: []fakemodel.Block{tools.Shell("true")}, Usage: map[string]int64{"input_tokens": 1, "output_tokens": 1000}})
	}
	steps = append(steps, fakemodel.Step{Text: "done", Usage: map[string]int64{"input_tokens": 1, "output_tokens": 1000}})
	return fakemodel.Scenario{Steps: steps}.Prompt("Go.")
}

// notices returns the notices about budgets among events.
func notices(events []event.Event) (out []string) {
	for _, ev := range events {
		if n, ok := ev.Body.(event.Notice); ok && n.Code == "BUDGET_EXCEEDED" {
			out = append(out, n.Message)
		}
	}
	return out
}

// refusedPrompt sends a prompt and returns the error.
func (w *world) refusedPrompt(session string) (code int, message string) {
	w.t.Helper()
	var answer struct {
		Error struct{ Type, Message string }
	}
	code, _ = w.Call("POST", "/api/session/"+session+"/send", map[string]any{"content": "More."}, &answer)
	return code, answer.Error.Type + ": " + answer.Error.Message
}

// TestTokenBudgetEndsTurnsOfRealAgents lets turns pass the budget of their
// session. The turn ends with a notice that a new reader receives, too. Further
// prompts are refused, also by the next server, until the budget is raised.
func TestTokenBudgetEndsTurnsOfRealAgents(t *testing.T) {
	each(t, func(t *testing.T, agent realagents.Binary) {
		w := newWorld(t, agent)
		tokens, atEnd := 2500, agent.Name == "gemini" || agent.Name == "opencode" // these report their usage at the end
		if agent.Name == "opencode" {
			tokens = 500 // 1.18.33 reports only that of the turn's last call of the model
		}
		session, code, message := w.create(map[string]any{"budget": map[string]any{"tokens": tokens}})
		if code != http.StatusCreated {
			t.Fatalf("create: %d %s", code, message)
		}
		c := w.Follow(session)
		turn := c.Send(w.spending(10))
		end := c.End(turn)
		live := notices(c.Events)
		if len(live) != 1 || !strings.HasPrefix(live[0], "The session has used ") || !strings.HasSuffix(live[0], fmt.Sprintf(" of its budget of %d tokens, so the turn ends.", tokens)) {
			t.Errorf("the notices are %q", live)
		}
		if done, ok := end.Body.(event.ResponseDone); !atEnd && (!ok || done.Status != event.StatusCancelled) {
			t.Errorf("the turn ended with %+v", end.Body)
		}
		if replayed := notices(w.Log(session, end.Seq)); len(replayed) != 1 || replayed[0] != live[0] {
			t.Errorf("a new reader receives %q", replayed)
		}
		c.Leave()
		if code, message := w.refusedPrompt(session); code != http.StatusConflict || !strings.HasPrefix(message, "BUDGET_EXCEEDED: the session has used ") || !strings.Contains(message, "set a higher budget.tokens") {
			t.Errorf("the next prompt: %d %s", code, message)
		}
		if agent.Name == "gemini" { // it cannot resume a conversation within the minute in which it began
			return
		}
		w.prog.Stop()
		w.start()
		if code, message := w.refusedPrompt(session); code != http.StatusConflict {
			t.Errorf("the next prompt to another server: %d %s", code, message)
		}
		if code, _ := w.Call("POST", "/api/session/"+session+"/options", map[string]any{"budget": map[string]any{"tokens": 10_000_000}}, nil); code != http.StatusOK {
			t.Errorf("raising the budget: %d", code)
		}
		w.tool(session, "true")
	}, "claude-code", "codex")
}

// TestTimeBudgetEndsTurnOfRealAgent gives one turn a budget of time, in which
// its tool does not end. The server is killed meanwhile; the next one ends the
// turn.
func TestTimeBudgetEndsTurnOfRealAgent(t *testing.T) {
	w := newWorld(t, realagents.Claude(t)[0])
	session, code, message := w.create(map[string]any{})
	if code != http.StatusCreated {
		t.Fatalf("create: %d %s", code, message)
	}
	began := filepath.Join(w.home.Project, "began")
	for _, path := range []string{began, filepath.Join(w.home.Project, "pipe")} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tools := realagents.ToolsetOf(w.agent.Name)
	prompt := fakemodel.Scenario{Steps: []fakemodel.Step{{Blocks: []fakemodel.Block{tools.Shell("echo > began; cat pipe")}}, {Text: "done"}}}.Prompt("Go.")
	c := w.Follow(session)
	var sent struct{ TurnID string }
	if code, _ := w.Call("POST", "/api/session/"+session+"/send", map[string]any{"content": prompt, "opts": map[string]any{"turnBudget": map[string]any{"minutes": 0.2}}}, &sent); code != http.StatusAccepted {
		t.Fatalf("send: %d", code)
	}
	w.begins(c, sent.TurnID, began)
	w.prog.Kill()
	c.Leave()
	w.start()
	c = w.Follow(session)
	defer c.Leave()
	if done, ok := c.End(sent.TurnID).Body.(event.ResponseDone); !ok || done.Status != event.StatusCancelled {
		t.Errorf("the turn ended with %+v", done)
	}
	if got := notices(c.Events); len(got) != 1 || !strings.HasPrefix(got[0], "The turn has used ") || !strings.HasSuffix(got[0], " of its budget of 0.2 minutes, so the turn ends.") {
		t.Errorf("the notices are %q", got)
	}
	w.tool(session, "true") // the next turn has no budget
}

// TestBudgetOfRun runs prompts with budgets on the command line, without a
// server.
func TestBudgetOfRun(t *testing.T) {
	w := newWorld(t, realagents.Codex(t))
	w.prog.Stop()
	run := func(flags ...string) (string, int) {
		args := append([]string{"run", "--agent", "codex", "--dir", w.home.Project, "--data", w.prog.Data}, flags...)
		cmd := exec.Command(testprogram.Path(t), append(args, w.spending(10))...)
		cmd.Env = w.prog.Env
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run("--budget-usd", "1"); code == 0 || !strings.Contains(out, "budget.usd: Codex reports no cost") || len(w.model.Requests()) > 0 {
		t.Errorf("%d %s", code, out)
	}
	if out, code := run("--budget-tokens", "2500"); code != 3 || !strings.Contains(out, "budget of 2500 tokens") {
		t.Errorf("%d %s", code, out)
	}
	if out, code := run("--budget-tokens", "1000000000", "--budget-minutes", "60"); code != 0 || !strings.Contains(out, "done") {
		t.Errorf("%d %s", code, out)
	}
}
