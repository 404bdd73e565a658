//go:build unix

package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// If this test binary is called claude, it acts as an agent. It speaks the JSON
// lines of Claude Code and prints the lines in the prompt, including lines that
// no real agent prints.
func init() {
	if filepath.Base(os.Args[0]) == "claude" {
		os.Exit(nativeAgent(os.Args[1:]))
	}
}

// A native is a prompt for the native agent. In its lines, $turn stands for the
// id that the agent received with the prompt, and $again for the number of the
// prompt.
type native struct {
	Lines   []string `json:"lines"`             // printed unchanged
	Stopped []string `json:"stopped,omitempty"` // printed when the turn is interrupted
	Exit    bool     `json:"exit,omitempty"`    // the agent exits after printing Lines
}

// prompt returns n as the text of a prompt.
func (n native) prompt() string {
	data, err := json.Marshal(n)
	if err != nil {
		panic(err) // unreachable: strings and a bool
	}
	return string(data)
}

func nativeAgent(args []string) int {
	switch {
	case slices.Contains(args, "--version"):
		fmt.Println("2.1.330 (Claude Code)")
		return 0
	case slices.Contains(args, "status"):
		fmt.Println(`{"loggedIn":true}`)
		return 0
	}
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	var n native
	for prompts := 0; ; {
		var line struct {
			Type      string
			UUID      string
			RequestID string `json:"request_id"`
			Request   struct{ Subtype string }
			Message   struct{ Content json.RawMessage }
		}
		if err := in.Decode(&line); err == io.EOF {
			return 0
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		switch line.Type {
		case "control_request":
			fmt.Printf(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{"commands":[],"models":[]}}}`+"\n", line.RequestID)
			if line.Request.Subtype == "interrupt" {
				printLines(n.Stopped, line.UUID, prompts)
			}
		case "user":
			var text string
			if json.Unmarshal(line.Message.Content, &text) != nil || json.Unmarshal([]byte(text), &n) != nil {
				fmt.Fprintln(os.Stderr, "the prompt does not list lines")
				return 1
			}
			prompts++
			printLines(n.Lines, line.UUID, prompts)
			if n.Exit {
				return 3
			}
		}
	}
}

func printLines(lines []string, turn string, prompts int) {
	fill := strings.NewReplacer("$turn", turn, "$again", fmt.Sprint(prompts))
	for _, line := range lines {
		fmt.Println(fill.Replace(line))
	}
}

// Lines of Claude Code that begin or end a turn.
const (
	nativeInit   = `{"type":"system","subtype":"init","session_id":"00000000-0000-4000-8000-000000000000","model":"native","tools":["Bash"],"permissionMode":"default","claude_code_version":"2.1.330"}`
	nativeResult = `{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","stop_reason":"end_turn","result":"done","usage":{"input_tokens":1,"output_tokens":1}}`
	nativeFailed = `{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["it failed"]}`
	nativeStop   = `{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","errors":[]}`
)

// streamLine returns the line in which the agent prints an event of the
// Messages API.
func streamLine(event string) string {
	return `{"type":"stream_event","parent_tool_use_id":null,"event":` + event + `}`
}

func messageStart(id string) string {
	return streamLine(fmt.Sprintf(`{"type":"message_start","message":{"id":%q,"type":"message","role":"assistant","model":"native","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`, id))
}

// textStart begins a text block, which textWhole ends.
func textStart(text string) string {
	return streamLine(fmt.Sprintf(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":%q}}`, text))
}

func textDelta(text string) string {
	return streamLine(fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, text))
}

func textWhole(message, text string) string {
	return assistant(message, fmt.Sprintf(`{"type":"text","text":%q}`, text))
}

// assistant returns a message with one complete block.
func assistant(id, block string) string {
	return fmt.Sprintf(`{"type":"assistant","parent_tool_use_id":null,"message":{"id":%q,"type":"message","role":"assistant","model":"native","content":[%s],"usage":{"input_tokens":1,"output_tokens":1}}}`, id, block)
}

func toolUse(message, name, call string) string {
	return assistant(message, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{"command":"make"}}`, call, name))
}

// toolResult returns the result of a tool call together with the agent's own
// record of it.
func toolResult(call, text, record string) string {
	return fmt.Sprintf(`{"type":"user","parent_tool_use_id":null,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q,"is_error":false}]},"tool_use_result":%s}`, call, text, record)
}

// A nativeServer is a server that finds the native agent under the name claude.
type nativeServer struct {
	server
	session string // shared by turns after which the agent keeps running
}

func (s *nativeServer) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := folder(t)
	if err := os.Symlink(self, filepath.Join(bin, "claude")); err != nil {
		t.Fatal(err)
	}
	s.Home = folder(t)
	s.Env = []string{"HOME=" + s.Home, "PATH=" + bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8"}
	s.server.start(t)
	s.session = s.nativeSession(t)
}

// native plays n as one turn, and returns the session, the id of the turn and
// its events.
func (s *nativeServer) native(t *testing.T, n native) (session, turn string, events frames) {
	t.Helper()
	session = s.session
	if n.Exit {
		session = s.nativeSession(t)
	}
	turn = s.send(t, session, n.prompt())
	return session, turn, s.turn(t, session, turn)
}

// nativeSession creates a session of the agent and returns its id.
func (s *nativeServer) nativeSession(t *testing.T) string {
	t.Helper()
	return s.post(t, "/api/session/create", object{"cliType": "claude", "projectDir": s.project}).ok(t, 201)["sessionId"].(string)
}
