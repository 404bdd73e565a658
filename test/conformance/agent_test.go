//go:build unix

package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fakeAgent is the first argument that makes the test program an agent that
// speaks ACP. The second one is a file that names the agent's behaviour:
//
//	answers      opens conversations, copies of them too, and repeats prompts
//	crashes      ends instead of answering a prompt
//	ends         ends before it is ready
//	fails        fails every prompt with an internal error
//	forgetful    answers, but resumes no conversation
//	holds        begins to answer every prompt, and ends it when it is released
//	key          fails every prompt, since the model API refuses the key
//	limited      fails every prompt, since the model API limits the rate
//	login        opens no conversation without a login
//	old          speaks an unknown version of the protocol
//	waits        begins to answer every prompt, and ends it when it is cancelled
const fakeAgent = "fake-agent"

// agentFile returns the fake agent as a program with the given behaviour, and
// the file that a test rewrites to change the behaviour.
func agentFile(t *testing.T, behaviour string) (program, file string) {
	t.Helper()
	dir := folder(t)
	file = write(t, dir, "behaviour", behaviour)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program = write(t, dir, "agent", fmt.Sprintf("#!/bin/sh\nexec '%s' %s '%s'\n", self, fakeAgent, file))
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	return program, file
}

// holdingAgent returns the fake agent as a program with the behaviour holds,
// and a function that lets it end one prompt.
func holdingAgent(t *testing.T) (program, file string, release func()) {
	t.Helper()
	program, file = agentFile(t, "holds")
	if err := syscall.Mkfifo(file+".release", 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(file+".release", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	return program, file, func() {
		t.Helper()
		if _, err := pipe.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitRelease returns once the release function of holdingAgent is called.
func awaitRelease(file string) error {
	pipe, err := os.Open(file + ".release")
	if err != nil {
		return err
	}
	_, err = pipe.Read(make([]byte, 1))
	return errors.Join(err, pipe.Close())
}

// configure writes the server's configuration file. Call it before start.
func (s *server) configure(t *testing.T, yaml string) {
	t.Helper()
	s.Args = append(s.Args, "--config", write(t, folder(t), "config.yaml", yaml))
}

// playAgent runs the fake agent until its stdin ends.
func playAgent(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	behaviour := strings.TrimSpace(string(data))
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	modes := object{"currentModeId": "default", "availableModes": []object{{"id": "default", "name": "Default"}}}
	var waiting json.RawMessage // id of the prompt that is not yet answered
	for conversations := 0; in.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				SessionID string
				Prompt    []struct{ Text string }
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		if m.Method == "session/cancel" && waiting != nil {
			m.ID, waiting = waiting, nil
		}
		if len(m.ID) == 0 {
			continue
		}
		answer := object{"jsonrpc": "2.0", "id": m.ID}
		refuse := func(code int, message string) { answer["error"] = object{"code": code, "message": message} }
		switch m.Method {
		case "initialize":
			version := 1
			switch behaviour {
			case "ends":
				return nil
			case "old":
				version = 99
			}
			able := object{"fork": object{}, "resume": object{}, "list": object{}}
			answer["result"] = object{
				"protocolVersion": version, "agentInfo": object{"name": "fake", "version": "1.0.0"},
				"agentCapabilities": object{"loadSession": true, "sessionCapabilities": able},
			}
		case "session/new", "session/fork":
			conversations++
			answer["result"] = object{"sessionId": fmt.Sprintf("%s-%d-%d", filepath.Base(m.Method), os.Getpid(), conversations), "modes": modes}
			if behaviour == "login" {
				delete(answer, "result")
				refuse(-32000, "Authentication required")
			}
		case "session/list":
			answer["result"] = object{"sessions": []object{}}
		case "session/resume", "session/load":
			answer["result"] = object{"modes": modes}
			if behaviour == "forgetful" {
				delete(answer, "result")
				refuse(-32603, "The conversation is damaged")
			}
		case "session/prompt":
			switch behaviour {
			case "crashes":
				return nil
			case "key":
				refuse(-32603, "API Error: 401 invalid x-api-key")
			case "fails":
				refuse(-32603, "Something broke")
			case "limited":
				refuse(-32603, "API Error: 429 rate limit exceeded")
			default:
				var text string
				for _, p := range m.Params.Prompt {
					text += p.Text
				}
				update := object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text}}
				_ = out.Encode(object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": m.Params.SessionID, "update": update}})
				answer["result"] = object{"stopReason": "end_turn"}
				switch behaviour {
				case "waits":
					waiting = m.ID
					continue
				case "holds":
					if err := awaitRelease(file); err != nil {
						return err
					}
				}
			}
		case "session/cancel":
			answer["result"] = object{"stopReason": "cancelled"}
		default:
			refuse(-32601, "Method not found")
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return in.Err()
}
