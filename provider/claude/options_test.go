package claude

import (
	"bufio"
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// mcpServer is the environment variable that makes the test binary an MCP
// server with one tool, "ping".
const mcpServer = "RUNNEL_TEST_MCP_SERVER"

func serveMCP(in io.Reader, out io.Writer) {
	answers := map[string]any{
		"initialize": args{"protocolVersion": "2025-06-18", "capabilities": args{"tools": args{}}, "serverInfo": args{"name": "x", "version": "1"}},
		"tools/list": args{"tools": []args{{"name": "ping", "description": "Ping", "inputSchema": args{"type": "object"}}}},
		"tools/call": args{"content": []args{{"type": "text", "text": "pong"}}},
	}
	enc := json.NewEncoder(out)
	for sc := bufio.NewScanner(in); sc.Scan(); {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(sc.Bytes(), &req) != nil || len(req.ID) == 0 {
			continue
		}
		result := answers[req.Method]
		if result == nil {
			result = args{}
		}
		enc.Encode(args{"jsonrpc": "2.0", "id": req.ID, "result": result})
	}
}

func TestMCPServersAndAddedDirectoriesCanBeUsed(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	eachAgent(t, func(t *testing.T, r *rig) {
		servers, err := json.Marshal(args{"mine": args{"type": "stdio", "command": exe, "env": args{mcpServer: "1"}}})
		if err != nil {
			t.Fatal(err)
		}
		further := filepath.Join(r.Home.Dir, "--further dir")
		if err := os.Mkdir(further, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(further, "f.txt"), []byte("beyond\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.Opt.MCPServers, r.Opt.AddDirs = servers, []string{further}
		r.Play(fakemodel.Step{Blocks: []fakemodel.Block{
			use("mcp__mine__ping", args{}), use("Read", args{"file_path": filepath.Join(further, "f.txt")}),
		}}, fakemodel.Step{Text: "ok"})
		evs := r.Finish(allowOnce)
		sound(t, evs)
		got := strings.Join(summary(evs), "\n")
		if !strings.Contains(got, "function_call_output pong") || !strings.Contains(got, "beyond") || strings.Contains(got, "(error)") {
			t.Errorf("got %s", got)
		}
		for _, a := range bodies[event.ApprovalRequested](evs) {
			if a.Approval.ToolName == "Read" {
				t.Error("reading in an added directory needed an approval")
			}
		}
	})
}

func TestAttachmentsReachTheModelAndTheHistory(t *testing.T) {
	var pic bytes.Buffer
	if err := png.Encode(&pic, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	eachAgentSerially(t, func(t *testing.T, r *rig) {
		r.Open()
		r.Turn = uuid.NewString()
		in := runnel.Input{Text: "/what is this?", Attachments: []runnel.Attachment{
			{Name: "p.png", MediaType: "image/png", Data: pic.Bytes()}, {Name: "n.txt", MediaType: "text/plain", Text: "a note"},
		}}
		if err := r.Conn.Prompt(t.Context(), r.Turn, in); err != nil {
			t.Fatal(err)
		}
		if got := summary(r.Finish("")); !slices.Equal(got, []string{"message ok", "completed end_turn"}) {
			t.Fatalf("got %q", got)
		}
		if got := r.received(); !strings.HasPrefix(got, in.Text) { // 2.1.329 appends the path of the stored image
			t.Errorf("the model got %q", got)
		}
		body := r.Model.Requests()[len(r.Model.Requests())-1].Body
		for _, want := range []string{`"media_type":"image/png"`, `a note`, `n.txt`} {
			if !bytes.Contains(body, []byte(want)) {
				t.Errorf("the model did not get %s", want)
			}
		}
		t.Setenv("CLAUDE_CONFIG_DIR", r.Home.Config)
		stored := items(history(t, runnel.Conversation{AgentSessionID: r.agentSession(), Dir: r.Home.Project}))
		m, ok := stored[0].Final.(event.Message)
		if !ok || m.Content != in.Text || stored[0].ID != r.Turn+":0:0" {
			t.Errorf("stored %+v", stored[0])
		}
		want := []event.Attachment{{MediaType: "image/png", Size: int64(pic.Len()), Picture: event.PictureID(pic.Bytes())}, {Name: "n.txt", MediaType: "text/plain", Size: 6}}
		if d := cmp.Diff(want, m.Attachments); d != "" {
			t.Error(d)
		}
	})
}

func TestForkContinuesFromACopy(t *testing.T) {
	eachAgentSerially(t, func(t *testing.T, r *rig) {
		r.stillWorks()
		before := r.agentSession()
		r.Conn.Close()
		r.Opt.Resume = before
		c, err := New().Fork(t.Context(), r.Opt)
		if err != nil {
			t.Fatal(err)
		}
		r.Conn = c
		defer c.Close()
		r.stillWorks()
		after := r.agentSession()
		if after == before {
			t.Error("the fork has the same id")
		}
		t.Setenv("CLAUDE_CONFIG_DIR", r.Home.Config)
		for id, want := range map[string]int{before: 2, after: 4} {
			if got := items(history(t, runnel.Conversation{AgentSessionID: id, Dir: r.Home.Project})); len(got) != want {
				t.Errorf("%d items, want %d", len(got), want)
			}
		}
	})
}

func TestModelAndPermissionModeChangeInARunningSession(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Opt.AllowBypass = true
		r.stillWorks()
		c := r.Conn.(*conn)
		if err := c.SetModel(t.Context(), "claude-haiku-4-5"); err != nil {
			t.Fatal(err)
		}
		if err := c.SetPermissionMode(t.Context(), runnel.ModeBypass); err != nil {
			t.Fatal(err)
		}
		r.Play(fakemodel.Step{Blocks: []fakemodel.Block{use("Bash", args{"command": "touch unasked", "description": "x"})}}, fakemodel.Step{Text: "ok"})
		evs := r.Finish(deny)
		sound(t, evs)
		if len(bodies[event.ApprovalRequested](evs)) != 0 || !exists(r.File("unasked")) {
			t.Error("the bypass mode asked for an approval")
		}
		var model, mode string
		for _, b := range bodies[event.SessionUpdated](evs) {
			if b.ModelID != "" {
				model = b.ModelID
			}
			if b.PermissionMode != "" {
				mode = b.PermissionMode
			}
		}
		if model != "claude-haiku-4-5" || mode != "bypass" {
			t.Errorf("model %q, mode %q", model, mode)
		}
	})
	if err := (&conn{}).SetPermissionMode(t.Context(), runnel.ModeBypass); runnel.CodeOf(err) != runnel.InvalidRequest {
		t.Errorf("bypass without AllowBypass: %v", err)
	}
}
