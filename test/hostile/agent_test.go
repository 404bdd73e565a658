//go:build linux

package hostile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// plan is what a prompt tells the agent to do.
type plan struct {
	Deltas   int           `json:"deltas,omitzero"`   // number of text deltas
	Pace     time.Duration `json:"pace,omitzero"`     // time before each delta
	Ask      bool          `json:"ask,omitzero"`      // ask for one permission
	Tool     []string      `json:"tool,omitzero"`     // command that runs before the agent asks
	Deep     int           `json:"deep,omitzero"`     // levels of nested lists in the call's arguments
	Await    bool          `json:"await,omitzero"`    // wait for the command's end
	Stubborn bool          `json:"stubborn,omitzero"` // ignore interrupts and all signals but SIGKILL
	Stdout   int           `json:"stdout,omitzero"`   // number of messages of 1 MiB
	Pages    int           `json:"pages,omitzero"`    // number of messages of 4 KiB
	Stderr   int           `json:"stderr,omitzero"`   // MiB to write to standard error
	DieAt    int           `json:"dieAt,omitzero"`    // exit after this many bytes of the turn
	Memory   int           `json:"memory,omitzero"`   // MiB of memory that the agent uses before it answers
	Later    int           `json:"later,omitzero"`    // MiB of memory that the agent uses once its permission is answered
	Print    string        `json:"print,omitzero"`    // variable whose value the agent prints at the end
}

const planWord = "plan: "

func (p plan) prompt() string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return planWord + string(b)
}

type object = map[string]any

// deepValue is a placeholder that write replaces with nested lists.
const deepValue = "lists in lists"

// agent speaks the protocol of Claude Code, which consists of JSON lines.
type agent struct {
	mu      sync.Mutex
	w       *bufio.Writer
	session string
	turns   int
	left    int           // bytes to write before the agent exits; 0 for no limit
	deep    int           // levels of nested lists that replace deepValue
	stop    chan struct{} // closed when the running turn is interrupted
	answers chan json.RawMessage
}

func agentMain(args []string) int {
	playProbe(args)
	if slices.Contains(args, "--version") {
		fmt.Println("2.1.329 (Claude Code)")
		return 0
	}
	if slices.Contains(args, "status") {
		fmt.Println(`{"loggedIn":true}`)
		return 0
	}
	a := &agent{w: bufio.NewWriterSize(os.Stdout, 64<<10), answers: make(chan json.RawMessage, 1), session: "00000000-0000-4000-8000-000000000000"}
	for _, arg := range args {
		for _, flag := range []string{"--session-id=", "--resume="} {
			if id, ok := strings.CutPrefix(arg, flag); ok {
				a.session = id
			}
		}
	}
	dec := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var line json.RawMessage
		if err := dec.Decode(&line); err == io.EOF {
			return 0
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		a.take(line)
	}
}

func (a *agent) take(line json.RawMessage) {
	var in struct {
		Type      string
		RequestID string `json:"request_id"`
		Request   struct {
			Subtype string
			Servers json.RawMessage
		}
		Message struct{ Content json.RawMessage }
	}
	if json.Unmarshal(line, &in) != nil {
		return
	}
	switch in.Type {
	case "control_request":
		if in.Request.Subtype == "interrupt" && a.stop != nil {
			close(a.stop)
			a.stop = nil
		}
		if in.Request.Subtype == "mcp_set_servers" { // the test reads this file
			if err := os.WriteFile("servers", in.Request.Servers, 0o600); err != nil {
				panic(err)
			}
		}
		a.write(object{"type": "control_response", "response": object{
			"subtype": "success", "request_id": in.RequestID, "response": object{"commands": []object{}, "models": []object{}},
		}})
	case "control_response":
		a.answers <- line
	case "user":
		var p plan
		var text string
		_ = json.Unmarshal(in.Message.Content, &text)
		_, asked, _ := strings.Cut(text, planWord)
		_ = json.NewDecoder(strings.NewReader(asked)).Decode(&p)
		if p.Stubborn {
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		}
		a.turns++
		stop := make(chan struct{})
		if a.stop = stop; p.Stubborn {
			a.stop = nil
		}
		go a.turn(p, stop)
	}
}

func (a *agent) write(v object) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deep > 0 { // by hand, because json.Marshal limits the levels
		line = bytes.ReplaceAll(line, []byte(`"`+deepValue+`"`), []byte(strings.Repeat("[", a.deep)+strings.Repeat("]", a.deep)))
	}
	line = append(line, '\n')
	if a.left > 0 && len(line) >= a.left {
		_, _ = a.w.Write(line[:a.left])
		_ = a.w.Flush()
		os.Exit(7)
	}
	a.left = max(0, a.left-len(line))
	if _, err := a.w.Write(line); err != nil {
		os.Exit(1)
	}
	if err := a.w.Flush(); err != nil {
		os.Exit(1)
	}
}

func (a *agent) event(ev object) {
	a.write(object{"type": "stream_event", "event": ev, "parent_tool_use_id": nil, "session_id": a.session})
}

func (a *agent) message(id string, content object) object {
	return object{"id": id, "type": "message", "role": "assistant", "model": "hostile", "content": []object{content}, "stop_reason": nil, "usage": object{"input_tokens": 1, "output_tokens": 1}}
}

// turn plays one turn: text, then the tool, then the result.
func (a *agent) turn(p plan, stop chan struct{}) {
	a.mu.Lock()
	a.left, a.deep = p.DieAt, p.Deep
	a.mu.Unlock()
	a.write(object{"type": "system", "subtype": "init", "session_id": a.session, "model": "hostile", "tools": []string{}, "permissionMode": "default", "claude_code_version": "2.1.329"})
	a.flood(p.Stderr)
	fill(p.Memory)
	id := fmt.Sprintf("msg_%s_%d", a.session, a.turns)
	stopped := a.text(id, p, stop)
	if !stopped && (p.Ask || len(p.Tool) > 0) {
		stopped = a.tool(id, p, stop)
	}
	if stopped {
		a.write(object{"type": "result", "subtype": "error_during_execution", "session_id": a.session, "is_error": true, "terminal_reason": "aborted_streaming", "errors": []string{}})
		return
	}
	a.write(object{"type": "result", "subtype": "success", "session_id": a.session, "is_error": false, "terminal_reason": "completed", "stop_reason": "end_turn", "result": "done", "usage": object{"input_tokens": 1, "output_tokens": 1}})
}

func (a *agent) text(id string, p plan, stop chan struct{}) (stopped bool) {
	for n := range p.Stdout {
		a.mebibyte(fmt.Sprintf("%s_%d", id, n))
	}
	for n := range p.Pages {
		a.page(fmt.Sprintf("%s_page_%d", id, n))
	}
	a.begin(id)
	var all strings.Builder
	say := func(text string) {
		all.WriteString(text)
		a.event(object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": text}})
	}
	for i := range p.Deltas {
		select {
		case <-stop:
			return true
		case <-time.After(p.Pace):
		}
		say(fmt.Sprintf("word %d ", i))
	}
	if p.Print != "" {
		say("It is " + os.Getenv(p.Print) + ".")
	}
	a.write(object{"type": "assistant", "session_id": a.session, "message": a.message(id, object{"type": "text", "text": all.String()}), "parent_tool_use_id": nil})
	a.event(object{"type": "content_block_stop", "index": 0})
	return false
}

func (a *agent) begin(id string) {
	a.event(object{"type": "message_start", "message": object{"id": id, "type": "message", "role": "assistant", "model": "hostile", "content": []object{}, "usage": object{"input_tokens": 1, "output_tokens": 1}}})
	a.event(object{"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""}})
}

// page writes a message of 4 KiB.
func (a *agent) page(id string) {
	a.begin(id)
	text := strings.Repeat("page of text. ", 4<<10/14)
	a.write(object{"type": "assistant", "session_id": a.session, "message": a.message(id, object{"type": "text", "text": text}), "parent_tool_use_id": nil})
	a.event(object{"type": "content_block_stop", "index": 0})
}

// mebibyte writes a message of about 1 MiB.
func (a *agent) mebibyte(id string) {
	a.begin(id)
	text := strings.Repeat("flood of text. ", 32<<10/15)
	for range 32 {
		a.event(object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": text}})
	}
	a.write(object{"type": "assistant", "session_id": a.session, "message": a.message(id, object{"type": "text", "text": strings.Repeat(text, 32)}), "parent_tool_use_id": nil})
	a.event(object{"type": "content_block_stop", "index": 0})
}

// flood writes mib MiB to standard error.
func (a *agent) flood(mib int) {
	line := append(bytes.Repeat([]byte("a line on standard error "), 40), '\n')
	chunk := bytes.Repeat(line, 1<<20/len(line)+1)
	for range mib {
		_, _ = os.Stderr.Write(chunk)
	}
}

// filled keeps the memory of fill in use.
var filled [][]byte

// fill uses mib MiB of memory.
func fill(mib int) {
	for range mib {
		filled = append(filled, bytes.Repeat([]byte{1}, 1<<20))
	}
}

func (a *agent) tool(id string, p plan, stop chan struct{}) (stopped bool) {
	call := "toolu_" + id
	input := object{"command": "hostile", "description": "Try"}
	if p.Deep > 0 {
		input["lists"] = deepValue
	}
	use := object{"type": "tool_use", "id": call, "name": "Bash", "input": input}
	a.event(object{"type": "content_block_start", "index": 1, "content_block": object{"type": "tool_use", "id": call, "name": "Bash", "input": object{}}})
	a.write(object{"type": "assistant", "session_id": a.session, "message": a.message(id, use), "parent_tool_use_id": nil})
	a.event(object{"type": "content_block_stop", "index": 1})
	if len(p.Tool) > 0 {
		cmd := exec.Command(p.Tool[0], p.Tool[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // agents start their tools in this way
		run := cmd.Start
		if p.Await {
			run = cmd.Run
		}
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if p.Ask {
		a.write(object{"type": "control_request", "request_id": "ask-" + call, "request": object{
			"subtype": "can_use_tool", "tool_name": "Bash", "input": input, "tool_use_id": call, "permission_suggestions": []object{},
		}})
		select {
		case <-a.answers:
			fill(p.Later)
		case <-stop:
			return true
		}
	}
	a.write(object{"type": "user", "session_id": a.session, "message": object{"role": "user", "content": []object{{
		"type": "tool_result", "tool_use_id": call, "content": "ran", "is_error": false,
	}}}, "parent_tool_use_id": nil})
	return false
}
