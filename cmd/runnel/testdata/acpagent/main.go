// Command acpagent is a minimal ACP agent that repeats its prompt. It must be
// started with --acp. For the prompt "run: COMMAND" it runs the command in the
// session's directory and answers with the output. For "where" it answers with
// its own working directory. For "wait: FILE" it says "before", reads the file,
// which may be a named pipe, and adds what it contains. For "ask: COMMAND" it
// asks for the permission to run the command, and answers with the decision.
// For "work: FILE" it reads two files, runs a command that ends once FILE can be
// read, and edits a file.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   any             `json:"error,omitempty"`
}

type object map[string]any

const session = "conversation-1"

func main() {
	if !slices.Contains(os.Args[1:], "--acp") {
		fmt.Fprintln(os.Stderr, "usage: acpagent --acp")
		os.Exit(2)
	}
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	dir := ""
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Cwd    string
				Prompt []struct{ Text string }
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || len(m.ID) == 0 {
			continue
		}
		answer := message{Version: "2.0", ID: m.ID}
		switch m.Method {
		case "initialize":
			answer.Result = object{"protocolVersion": 1, "agentInfo": object{"name": "acpagent", "version": "1.2.3"}, "agentCapabilities": object{}}
		case "session/new":
			dir = m.Params.Cwd
			answer.Result = object{"sessionId": session}
		case "session/prompt":
			text := ""
			for _, p := range m.Params.Prompt {
				text += " " + p.Text
			}
			said := "you said:" + text
			if command, ok := strings.CutPrefix(text, " run: "); ok {
				said = output(dir, command)
			} else if text == " where" {
				said, _ = os.Getwd()
			} else if file, ok := strings.CutPrefix(text, " wait: "); ok {
				say(out, "before ")
				content, err := os.ReadFile(file)
				if said = string(content); err != nil {
					said = err.Error()
				}
			} else if command, ok := strings.CutPrefix(text, " ask: "); ok {
				said = ask(out, in, command)
			} else if file, ok := strings.CutPrefix(text, " work: "); ok {
				said = work(out, dir, file)
			}
			if greeting := os.Getenv("ACPAGENT_GREETING"); greeting != "" {
				said = greeting + ", " + said
			}
			for _, word := range strings.SplitAfter(said, " ") {
				say(out, word)
			}
			answer.Result = object{"stopReason": "end_turn"}
		default:
			answer.Error = object{"code": -32601, "message": "Method not found"}
		}
		_ = out.Encode(answer)
	}
}

// say sends a part of the answer.
func say(out *json.Encoder, text string) {
	update(out, object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text}})
}

func update(out *json.Encoder, update object) {
	_ = out.Encode(message{Version: "2.0", Method: "session/update", Params: object{"sessionId": session, "update": update}})
}

// work calls tools. The second one ends once file can be read.
func work(out *json.Encoder, dir, file string) string {
	say(out, "I will look and then build it. ")
	call := func(id, kind, title string, input object, content ...object) {
		update(out, object{"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": "in_progress", "rawInput": input, "content": content})
	}
	done := func(id string, more object) {
		more["sessionUpdate"], more["toolCallId"], more["status"] = "tool_call_update", id, "completed"
		update(out, more)
	}
	for _, name := range []string{"a.go", "b.go"} {
		call(name, "read", "Read "+name, object{"path": dir + "/" + name})
		done(name, object{"rawOutput": "package a"})
	}
	call("make", "execute", "make test", object{"command": "make test"})
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	done("make", object{"content": []object{{"type": "content", "content": object{"type": "text", "text": string(content)}}}})
	call("edit", "edit", "Edit a.go", object{"path": dir + "/a.go"})
	done("edit", object{"content": []object{{"type": "diff", "path": dir + "/a.go", "oldText": "package a\n", "newText": "package b\n"}}})
	return "It is built."
}

// ask asks for the permission to run a command and returns the decision.
func ask(out *json.Encoder, in *bufio.Scanner, command string) string {
	_ = out.Encode(message{Version: "2.0", ID: json.RawMessage(`"ask"`), Method: "session/request_permission", Params: object{
		"sessionId": session,
		"toolCall":  object{"toolCallId": "call", "title": command, "kind": "execute", "rawInput": object{"command": command}},
		"options":   []object{{"optionId": "yes", "name": "Allow", "kind": "allow_once"}, {"optionId": "no", "name": "Reject", "kind": "reject_once"}},
	}})
	for in.Scan() {
		var answer struct {
			ID     string
			Result struct {
				Outcome struct{ OptionID string }
			}
		}
		if json.Unmarshal(in.Bytes(), &answer) == nil && answer.ID == "ask" {
			return "the answer is " + answer.Result.Outcome.OptionID
		}
	}
	return "no answer"
}

// output runs a shell command in a directory and returns what it prints.
func output(dir, command string) string {
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}
