//go:build linux

package hostile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// The lying Codex asks these questions at once, before and after the server is
// killed. The parts from which the id of an approval derives join to the same
// text.
var lies = []struct{ request, approval, command string }{{"q", "a sz", "ls"}, {"z sq", "a", "rm -rf /"}}

// lie plays a Codex that lies about ids. It reports whether it has dealt with
// the line, which is a request or an answer.
func lie(id json.RawMessage, method string, line []byte) bool {
	const turn = `"threadId":"t","turn":{"id":"u","status":"%s","items":[]}`
	switch method {
	case "thread/start", "thread/resume":
		fmt.Printf(`{"id":%s,"result":{"thread":{"id":"t"},"model":"m","approvalPolicy":"on-request","sandbox":{"type":"workspaceWrite"}}}`+"\n", id)
	case "turn/start":
		fmt.Printf(`{"id":%s,"result":{"turn":{"id":"u","status":"inProgress"}}}`+"\n", id)
		fmt.Printf(`{"method":"turn/started","params":{`+turn+"}}\n", "inProgress")
		for _, l := range lies {
			fmt.Printf(`{"id":%q,"method":"item/commandExecution/requestApproval","params":{"threadId":"t","turnId":"u","itemId":"i","approvalId":%q,"command":%q,"cwd":"/"}}`+"\n", l.request, l.approval, l.command)
		}
	case "": // the answer to a question: the turn ends with it
		said, err := json.Marshal(string(line))
		if err != nil {
			panic(err)
		}
		fmt.Printf(`{"method":"item/completed","params":{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"m","text":%s}}}`+"\n", said)
		fmt.Printf(`{"method":"turn/completed","params":{`+turn+"}}\n", "completed")
	default:
		return false
	}
	return true
}

// TestAnswerReachesTheQuestionThatWasShown answers the first of two questions
// whose ids an agent has chosen to look alike, also after the server was killed
// and has taken the agent over.
func TestAnswerReachesTheQuestionThatWasShown(t *testing.T) {
	for name, killed := range map[string]bool{"live": false, "taken over": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, "60s")
			copyFile(t, w.agent(), filepath.Join(filepath.Dir(w.agent()), "codex"))
			w.start()
			var made struct {
				SessionID string `json:"sessionId"`
			}
			if code, _ := w.Call("POST", "/api/session/create", object{"cliType": "codex", "projectDir": w.project}, &made); code != http.StatusCreated {
				t.Fatalf("create: %d", code)
			}
			w.knows(made.SessionID)
			c := w.Watch(made.SessionID)
			defer c.Leave()
			turn := c.Send("go")
			var asked []event.Approval
			c.Until("second question", func(ev event.Event) bool {
				if b, ok := ev.Body.(event.ApprovalRequested); ok {
					asked = append(asked, b.Approval)
				}
				return len(asked) == len(lies)
			})
			if killed {
				w.kill()
				w.start()
			}
			first := asked[slices.IndexFunc(asked, func(a event.Approval) bool { return a.Title == lies[0].command })]
			c.Decide(first)
			c.End(turn)
			want := fmt.Sprintf(`{"id":%q,"result":{"decision":"accept"}}`, lies[0].request)
			said := ""
			for _, ev := range c.Events {
				if b, ok := ev.Body.(event.ItemDone); ok {
					if m, ok := b.FinalItem.(event.Message); ok && m.Origin == event.OriginAgent {
						said = m.Content
					}
				}
			}
			if said != want {
				t.Errorf("the agent got %s, want %s", said, want)
			}
			c.Agrees(turn, w.Log(made.SessionID, c.Events[len(c.Events)-1].Seq))
		})
	}
}
