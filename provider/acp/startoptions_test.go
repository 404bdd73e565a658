package acp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// hostileText is a text for the system prompt that a program could take for a
// flag.
const hostileText = "--settings={} Answer in plain words."

// The adapter for Claude Code passes on the tools, the limit of model calls,
// further directories, the text for the system prompt and the display of reasoning.
func TestAdapterPassesOptionsOfAStartOn(t *testing.T) {
	r := newRig(t, "claude-agent-acp")
	further := filepath.Join(r.Home.Dir, "further")
	if err := os.Mkdir(further, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(further, "f.txt")
	if err := os.WriteFile(file, []byte("beyond\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	input, err := json.Marshal(map[string]string{"file_path": file})
	if err != nil {
		t.Fatal(err)
	}
	r.Opt.Tools, r.Opt.MaxTurns, r.Opt.AddDirs = []string{"Read", "Bash"}, 1, []string{further}
	r.Opt.SystemPromptAppend, r.Opt.ThinkingDisplay = hostileText, runnel.ThinkingOmitted
	r.Play(fakemodel.Step{Blocks: []fakemodel.Block{{Type: "tool_use", Name: "Read", Input: input}}}, fakemodel.Step{Text: "Done."})
	evs := r.Finish("")
	var names []string
	for _, q := range r.Model.Requests() {
		var body struct{ Tools []struct{ Name string } }
		if q.Method == "POST" && json.Unmarshal(q.Body, &body) == nil {
			for _, tool := range body.Tools {
				if !slices.Contains(names, tool.Name) && tool.Name != "DeferredToolPlaceholder" {
					names = append(names, tool.Name)
				}
			}
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"Bash", "Read"}) {
		t.Errorf("tools: the model can call %q", names)
	}
	read := false
	for _, ev := range evs {
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			t.Errorf("addDirs: %s needed an approval", b.Approval.Title)
		case event.ItemDone:
			out, ok := b.FinalItem.(event.FunctionCallOutput)
			read = read || ok && strings.Contains(out.Output, "beyond")
		}
	}
	if !read {
		t.Error("addDirs: the file was not read")
	}
	last, ok := evs[len(evs)-1].Body.(event.ResponseError)
	if !ok || !strings.Contains(last.Error.Message, "maximum number of turns (1)") {
		t.Errorf("maxTurns: the turn ended with %+v", evs[len(evs)-1].Body)
	}
	if !r.ModelReceived(hostileText) {
		t.Error("systemPromptAppend: the model did not receive the text")
	}
	if asked := r.requestedDisplays(); len(asked) == 0 || slices.Contains(asked, "summarized") {
		t.Errorf("thinkingDisplay: the model was asked for %q", asked)
	}
}

// offeredAdd matches the offer of the tool "add" of the MCP server "t" in a
// request to the model. Agents join the two names differently. Claude Code at
// first only lists the name.
var offeredAdd = regexp.MustCompile(`"name":\s*"((?:mcp_+)?(?:t[_.-]+)?add)"|(mcp__t__add)`)

// The agent starts the MCP server, offers its tools to the model, and calls
// them. TestModelAndMCPServersOfSessionAreUsed does the same with other agents.
// opencode needs RUNNEL_LONG=1, because it starts slowly and gets the same request
// as the others. The adapter for Claude Code also requests summaries of the
// reasoning, as in TestAdapterAsksForReasoning.
func TestMCPServersCanBeUsed(t *testing.T) {
	names := []string{"claude-agent-acp"}
	if os.Getenv("RUNNEL_LONG") != "" {
		names = append(names, "opencode")
	}
	eachOf(t, names, func(t *testing.T, r *rig) {
		r.callsAdd(r.MarkedMCP())
		if asked := r.requestedDisplays(); r.Agent.Name == "claude-agent-acp" && !slices.Contains(asked, "summarized") {
			t.Errorf("the model was asked for reasoning %q", asked)
		}
	})
}

// Qwen Code offers the tools of MCP servers to the model only after the model
// has searched for them.
func TestQwenModelFindsToolsOfMCPServers(t *testing.T) {
	r := newRig(t, "qwen")
	marks := r.MarkedMCP()
	r.Play(said)
	r.FinishTurn("")
	agentrig.Await(t, marks.Listed)
	for begun := time.Now(); !r.ModelReceived("Adds."); { // the search may precede the agent's receipt of the list
		if time.Since(begun) > waitTimeout {
			t.Fatal("the search does not find the tool")
		}
		r.Play(calls(fakemodel.Call("tool_search", args{"query": "select:mcp__t__add"})), said)
		r.FinishTurn(translate.AllowOnce)
	}
	r.Play(calls(fakemodel.Call("mcp__t__add", args{"a": 1})), said)
	if evs := r.FinishTurn(translate.AllowOnce); !agentrig.Exists(marks.Called) {
		t.Errorf("the tool was not called:\n%s", dump(evs))
	}
}

func TestCopilotRejectsMCPServersThatItWouldStart(t *testing.T) {
	s := newTranslator(known(t, "copilot")).session
	s.caps.HTTP = true
	if _, err := s.mcpServers(json.RawMessage(`{"t":{"command":"/bin/t"}}`)); runnel.CodeOf(err) != runnel.InvalidRequest {
		t.Error(err)
	}
	if _, err := s.mcpServers(json.RawMessage(`{"t":{"type":"http","url":"https://x"}}`)); err != nil {
		t.Error(err)
	}
}

func TestModelOfCopilotReplacesTheConfiguredOne(t *testing.T) {
	got := copilot().startup.startModel([]string{"COPILOT_MODEL=a", "X=y", "COPILOT_MODEL=b"}, "c")
	if !slices.Equal(got, []string{"X=y", "COPILOT_MODEL=c"}) {
		t.Errorf("got %q", got)
	}
}

// GitHub Copilot ignores the MCP servers that it would have to start, so
// Runnel rejects them. It connects to servers over HTTP; see
// TestModelAndMCPServersOfSessionAreUsed.
func TestCopilotIsGivenNoMCPServersThatItWouldStart(t *testing.T) {
	r := newRig(t, "copilot")
	r.MCP()
	c, err := r.Provider.Open(t.Context(), r.Opt)
	if err == nil {
		c.Close()
	}
	if runnel.CodeOf(err) != runnel.InvalidRequest || !strings.Contains(err.Error(), "the transport of the server t") {
		t.Errorf("a server that the agent would start: %v", err)
	}
}

// callsAdd fails the test unless the agent offers the model the tool "add" of
// an MCP server, and calls it when the model does.
func (r *rig) callsAdd(marks agentrig.Marks) {
	r.T.Helper()
	r.Play(said)
	r.FinishTurn("")
	agentrig.Await(r.T, marks.Listed)
	tool := ""
	for begun := time.Now(); ; { // an agent may get the list only after it has sent a prompt
		for _, q := range r.Model.Requests() {
			if m := offeredAdd.FindSubmatch(q.Body); m != nil {
				tool = string(m[1]) + string(m[2])
			}
		}
		if tool != "" {
			break
		}
		if time.Since(begun) > waitTimeout {
			r.T.Fatal("the tool is not offered to the model")
		}
		r.Play(said)
		r.FinishTurn("")
	}
	if agentrig.Exists(marks.Called) {
		r.T.Fatal("the tool was called before the model called it")
	}
	r.Play(calls(fakemodel.Call(tool, args{"a": 1})), said)
	if evs := r.FinishTurn(translate.AllowOnce); !agentrig.Exists(marks.Called) {
		r.T.Errorf("%s was not called:\n%s", tool, dump(evs))
	}
}

// The agent asks the model that the session selects, and no other. It is not
// the agent's default. It also uses the session's MCP server.
func TestModelAndMCPServersOfSessionAreUsed(t *testing.T) {
	for _, tt := range []struct {
		agent  string
		opt    runnel.Options
		model  string
		server func(*agentrig.Rig) agentrig.Marks
	}{
		{"copilot", runnel.Options{Model: "gpt-5-mini"}, "gpt-5-mini", (*agentrig.Rig).MarkedHTTPMCP}, // the rig's environment has another model
		{"gemini", runnel.Options{Config: runnel.Values{"model": geminiPro}}, geminiPro, (*agentrig.Rig).MarkedMCP},
	} {
		t.Run(tt.agent, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.agent)
			r.Opt.Model, r.Opt.Config = tt.opt.Model, tt.opt.Config
			r.callsAdd(tt.server(r.Rig))
			var models []string
			for _, q := range r.Model.Requests() {
				if model := modelOf(q); model != "" {
					models = append(models, model)
				}
			}
			if !slices.Contains(models, tt.model) || slices.ContainsFunc(models, func(m string) bool { return m != tt.model }) {
				t.Errorf("the agent asked the models %q, want only %s", models, tt.model)
			}
		})
	}
}

// geminiPro is a model that Gemini CLI offers and does not choose by itself.
const geminiPro = "gemini-3.1-pro-preview-customtools"

// modelOf returns the model that a request asks, or "" for other requests.
func modelOf(q fakemodel.Request) string {
	if rest, ok := strings.CutPrefix(q.Path, "/v1beta/models/"); ok {
		model, method, _ := strings.Cut(rest, ":")
		if strings.HasPrefix(method, "streamGenerateContent") {
			return model
		}
		return ""
	}
	var body struct{ Model string }
	if q.Method != "POST" || json.Unmarshal(q.Body, &body) != nil {
		return ""
	}
	return body.Model
}

// Codex writes in a further directory without asking, and not beside it. Its model
// receives the text for the system prompt.
func TestCodexAdapterPassesOptionsOfAStartOn(t *testing.T) {
	away, err := os.MkdirTemp("/var/tmp", "runnel-outside-") // the sandbox allows writes below /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(away) })
	further := filepath.Join(away, "further")
	if err := os.Mkdir(further, 0o700); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "codex-acp")
	r.Opt.AddDirs, r.Opt.SystemPromptAppend = []string{further}, hostileText
	inside, outside := filepath.Join(further, "f"), filepath.Join(away, "f")
	r.Play(calls(r.words().Shell("touch "+inside+"; touch "+outside)), said)
	evs, asked := r.DenyAll()
	if asked > 0 || !agentrig.Exists(inside) || agentrig.Exists(outside) {
		t.Errorf("asked %d times, further: %v, outside: %v\n%s", asked, agentrig.Exists(inside), agentrig.Exists(outside), dump(evs))
	}
	if !r.ModelReceived(hostileText) {
		t.Error("the model did not receive the text for the system prompt")
	}
}
