//go:build unix

package conformance

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// successes maps each operationId to a request that succeeds. The caller checks
// the response.
var successes = map[string]func(t *testing.T, r *routes) answer{
	"health":  func(t *testing.T, r *routes) answer { return r.as("").get(t, "/api/health") },
	"openapi": func(t *testing.T, r *routes) answer { return r.as("").get(t, "/openapi.json") },
	"docs":    func(t *testing.T, r *routes) answer { return r.get(t, "/docs") },
	"metrics": func(t *testing.T, r *routes) answer { return r.get(t, "/metrics") },
	"me":      func(t *testing.T, r *routes) answer { return r.get(t, "/api/me") },

	"listAgents":   func(t *testing.T, r *routes) answer { return r.get(t, "/api/agents?refresh=false") },
	"listProjects": func(t *testing.T, r *routes) answer { return r.get(t, "/api/projects") },
	"overview":     func(t *testing.T, r *routes) answer { return r.get(t, "/api/overview") },
	"listConversations": func(t *testing.T, r *routes) answer {
		return r.get(t, "/api/conversations?limit=5&projectDir="+url.QueryEscape(r.project))
	},
	"usage": func(t *testing.T, r *routes) answer {
		return r.get(t, "/api/usage?by=session&projectDir="+url.QueryEscape(r.project))
	},
	"previewRetention": func(t *testing.T, r *routes) answer { return r.get(t, "/api/retention?olderThan=720h&maxMib=1000") },
	"applyRetention": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/retention", object{"olderThan": "720h"})
	},
	"search": func(t *testing.T, r *routes) answer {
		return r.get(t, "/api/search?q=text&kind=prompt&limit=5&projectDir="+url.QueryEscape(r.project))
	},
	"listProfiles": func(t *testing.T, r *routes) answer {
		return r.get(t, "/api/profiles?projectDir="+url.QueryEscape(r.project))
	},
	"getProfile": func(t *testing.T, r *routes) answer { return r.get(t, "/api/profiles/reviewer") },

	"createSession": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/session/create", object{"cliType": "script", "projectDir": r.project, "options": object{"model": "scripted", "later": 1}})
	},
	"listSessions": func(t *testing.T, r *routes) answer {
		return r.get(t, "/api/session/list?all=true&projectDir="+url.QueryEscape(r.project))
	},
	"sessionStatus": func(t *testing.T, r *routes) answer { return r.get(t, "/api/session/"+r.ended+"/status") },
	"listItems": func(t *testing.T, r *routes) answer {
		return r.get(t, "/api/session/"+r.ended+"/items?after=0&limit=5")
	},
	"exportSession": func(t *testing.T, r *routes) answer { return r.get(t, "/api/session/"+r.ended+"/export?format=jsonl") },
	"importSession": func(t *testing.T, r *routes) answer {
		export := r.get(t, "/api/session/"+r.ended+"/export?format=jsonl")
		return r.with("Content-Type", "application/octet-stream").post(t, "/api/session/import?projectDir="+url.QueryEscape(r.project), string(export.body))
	},
	"followEvents": followEvents,
	"sendPrompt": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/session/"+r.session(t, nil)+"/send", object{"content": script(object{"text": "x"}), "opts": object{"later": 1}})
	},
	"cancelTurn": func(t *testing.T, r *routes) answer {
		id, _ := r.running(t)
		return r.post(t, "/api/session/"+id+"/cancel", object{})
	},
	"listQueue": func(t *testing.T, r *routes) answer {
		id, _ := waiting(t, &r.server, "one", "two")
		return r.get(t, "/api/session/"+id+"/queue")
	},
	"holdQueue": func(t *testing.T, r *routes) answer {
		id, _ := waiting(t, &r.server, "one")
		return r.post(t, "/api/session/"+id+"/queue", object{"held": true})
	},
	"getQueuedPrompt": func(t *testing.T, r *routes) answer {
		id, turns := waiting(t, &r.server, "one")
		return r.get(t, "/api/session/"+id+"/queue/"+turns[0])
	},
	"editQueuedPrompt": func(t *testing.T, r *routes) answer {
		id, turns := waiting(t, &r.server, "one", "two")
		return r.post(t, "/api/session/"+id+"/queue/"+turns[1], object{"content": "2", "before": turns[0]})
	},
	"removeQueuedPrompt": func(t *testing.T, r *routes) answer {
		id, turns := waiting(t, &r.server, "one", "two")
		return r.do(t, http.MethodDelete, "/api/session/"+id+"/queue/"+turns[0], nil)
	},
	"markSeen": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/session/"+r.ended+"/seen", object{"seq": 1})
	},
	"killSession": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/session/"+r.session(t, nil)+"/kill", object{})
	},
	"loadSession": func(t *testing.T, r *routes) answer {
		id := r.session(t, nil)
		r.post(t, "/api/session/"+id+"/kill", object{}).ok(t, http.StatusOK)
		return r.post(t, "/api/session/"+id+"/load", object{})
	},
	"setOptions": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/session/"+r.session(t, nil)+"/options", object{"permissionMode": "acceptEdits", "later": 1})
	},
	"renameSession": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/session/"+r.session(t, nil)+"/rename", object{"title": "Fix the login"})
	},
	"archiveSession": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/session/"+r.session(t, nil)+"/archive", object{"archived": true})
	},
	"previewDeletion": func(t *testing.T, r *routes) answer {
		return r.get(t, "/api/session/"+r.ended+"/deletion")
	},
	"deleteSession": func(t *testing.T, r *routes) answer {
		id := r.session(t, nil)
		r.turn(t, id, r.send(t, id, "text"))
		return r.do(t, http.MethodDelete, "/api/session/"+id, nil)
	},
	"setCapture": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/session/"+r.sessionOf(t, "claude-agent-acp")+"/capture", object{"on": true})
	},
	"getCapture": func(t *testing.T, r *routes) answer {
		path := "/api/session/" + r.sessionOf(t, "claude-agent-acp") + "/capture"
		r.post(t, path, object{"on": true}).ok(t, http.StatusOK)
		return r.get(t, path)
	},
	"getEgress": func(t *testing.T, r *routes) answer {
		return r.get(t, "/api/session/"+r.ended+"/egress")
	},
	"getDenials": func(t *testing.T, r *routes) answer {
		return r.get(t, "/api/session/"+r.ended+"/denials")
	},
	"forkSession": func(t *testing.T, r *routes) answer {
		id := r.sessionOf(t, "claude-agent-acp")
		r.turn(t, id, r.send(t, id, "hello"))
		return r.post(t, "/api/session/"+id+"/fork", object{})
	},
	"listChanges": func(t *testing.T, r *routes) answer {
		id := r.session(t, nil)
		text := object{"path": "a.txt", "kind": "update", "oldText": "1\n2\n", "newText": "1\nx\n", "hunks": []object{}}
		turn := r.send(t, id, script(object{"tool": object{"name": "Edit", "kind": "edit", "changes": []object{text}}}))
		r.turn(t, id, turn)
		return r.get(t, "/api/session/"+id+"/changes?context=1&turn="+turn)
	},
	"approvalChanges": func(t *testing.T, r *routes) answer {
		id := r.session(t, nil)
		text := object{"path": "a.txt", "kind": "update", "newText": "1\n", "hunks": []object{}}
		r.send(t, id, script(object{"tool": object{"name": "Edit", "kind": "edit", "changes": []object{text}, "ask": object{}}}))
		asked := r.events(t, id, func(f frame) bool { return f.event == "approval_requested" }).find("approval_requested")
		approval := asked.payload()["approval"].(object)
		return r.get(t, "/api/session/"+id+"/approvals/"+approval["id"].(string)+"/changes")
	},
	"gitStatus": func(t *testing.T, r *routes) answer { return r.get(t, r.inGit(t)) },
	"gitDiff":   func(t *testing.T, r *routes) answer { return r.get(t, r.inGit(t)+"/diff?path=a.txt&side=unstaged") },
	"gitStage": func(t *testing.T, r *routes) answer {
		return r.post(t, r.inGit(t)+"/stage", object{"files": []object{{"path": "a.txt"}}, "staged": true})
	},
	"gitCommit": func(t *testing.T, r *routes) answer {
		path := r.inGit(t)
		st := r.post(t, path+"/stage", object{"files": []object{{"path": "a.txt"}}, "staged": true}).ok(t, http.StatusOK)
		return r.post(t, path+"/commit", object{"message": "Change a.txt", "seen": st["seen"]})
	},
	"gitRevert": func(t *testing.T, r *routes) answer {
		path := r.inGit(t)
		diff := r.get(t, path+"/diff?path=a.txt&side=unstaged").ok(t, http.StatusOK)
		return r.post(t, path+"/revert", object{"path": "a.txt", "seen": diff["seen"], "losesUnstaged": true})
	},
	"worktreeStatus": func(t *testing.T, r *routes) answer { path, _ := r.inWorktree(t); return r.get(t, path) },
	"worktreeMerge": func(t *testing.T, r *routes) answer {
		path, dir := r.inWorktree(t)
		write(t, dir, "b.txt", "new\n")
		return r.post(t, path+"/merge", object{"message": "Add b.txt", "seen": r.get(t, path).ok(t, http.StatusOK)["seen"]})
	},
	"worktreeRemove": func(t *testing.T, r *routes) answer {
		path, dir := r.inWorktree(t)
		write(t, dir, "b.txt", "new\n")
		return r.post(t, path+"/remove", object{"discard": true, "seen": r.get(t, path).ok(t, http.StatusOK)["seen"]})
	},
	"getApproval": func(t *testing.T, r *routes) answer {
		id, approval := r.asking(t)
		return r.get(t, "/api/session/"+id+"/approvals/"+approval["id"].(string))
	},
	"decideApproval": func(t *testing.T, r *routes) answer {
		id, approval := r.asking(t)
		remember := object{"kind": "execute", "pattern": "make", "projectDir": r.project}
		return r.post(t, "/api/session/"+id+"/approvals/"+approval["id"].(string),
			object{"choice": "allow", "argumentsDigest": approval["argumentsDigest"], "remember": remember})
	},

	"addMCPServer": func(t *testing.T, r *routes) answer { return r.tickets(t) },
	"listMCPServers": func(t *testing.T, r *routes) answer {
		r.tickets(t).ok(t, http.StatusCreated)
		return r.get(t, "/api/agents/claude-code/mcp")
	},
	"getMCPServer": func(t *testing.T, r *routes) answer {
		r.tickets(t).ok(t, http.StatusCreated)
		return r.get(t, "/api/agents/claude-code/mcp/tickets")
	},
	"removeMCPServer": func(t *testing.T, r *routes) answer {
		r.tickets(t).ok(t, http.StatusCreated)
		return r.do(t, http.MethodDelete, "/api/agents/claude-code/mcp/tickets", nil)
	},

	"listRules":  func(t *testing.T, r *routes) answer { r.rule(t); return r.get(t, "/api/rules") },
	"createRule": func(t *testing.T, r *routes) answer { return r.rule(t) },
	"explainRules": func(t *testing.T, r *routes) answer {
		r.rule(t)
		return r.post(t, "/api/rules/explain", object{"cliType": "script", "projectDir": r.project, "tool": "Bash", "arguments": object{"command": "never-run"}})
	},
	"deleteRule": func(t *testing.T, r *routes) answer {
		id := at(r.rule(t).ok(t, http.StatusCreated), "rule", "id").(float64)
		return r.do(t, http.MethodDelete, "/api/rules/"+number(id), nil)
	},

	"getPush":       func(t *testing.T, r *routes) answer { return r.get(t, "/api/push") },
	"subscribePush": func(t *testing.T, r *routes) answer { return r.post(t, "/api/push", pushSubscription) },
	"unsubscribePush": func(t *testing.T, r *routes) answer {
		r.post(t, "/api/push", pushSubscription).ok(t, http.StatusOK)
		return r.do(t, http.MethodDelete, "/api/push", nil)
	},

	"completeFiles": func(t *testing.T, r *routes) answer {
		write(t, r.project, "src/a.txt", "text\n")
		return r.get(t, "/api/session/"+r.ended+"/files?query=a&limit=5")
	},
	"completeProjectFiles": func(t *testing.T, r *routes) answer {
		write(t, r.project, "src/a.txt", "text\n")
		return r.get(t, "/api/files?query=a&projectDir="+url.QueryEscape(r.project))
	},
	"listFolder": func(t *testing.T, r *routes) answer {
		write(t, r.project, "src/a.txt", "text\n")
		return r.get(t, "/api/session/"+r.ended+"/folder?path=src")
	},
	"readFile": func(t *testing.T, r *routes) answer {
		write(t, r.project, "src/a.txt", "text\n")
		return r.get(t, "/api/session/"+r.ended+"/file?path=src/a.txt&from=1&to=1")
	},
	"readImage": func(t *testing.T, r *routes) answer {
		write(t, r.project, "a.gif", "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")
		return r.get(t, "/api/session/"+r.ended+"/image?path=a.gif")
	},
	"getPicture": func(t *testing.T, r *routes) answer {
		gif := "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
		write(t, r.project, "b.gif", gif)
		session := r.session(t, nil)
		r.post(t, "/api/harness/turn", object{"sessionId": session, "message": "text", "attachments": []string{filepath.Join(r.project, "b.gif")}})
		return r.get(t, "/api/session/"+session+"/pictures/"+fmt.Sprintf("%x", sha256.Sum256([]byte(gif))))
	},
	"listFolders": func(t *testing.T, r *routes) answer {
		return r.get(t, "/api/folders?path="+url.QueryEscape(r.project+"/"))
	},
	"createFolder": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/folders", object{"path": r.project, "name": "new"})
	},

	"upload": func(t *testing.T, r *routes) answer {
		return r.with("Content-Type", "application/octet-stream").post(t, "/api/uploads?name=a.txt", "text")
	},

	"streamTurn": func(t *testing.T, r *routes) answer {
		steps := []object{
			{"reasoning": "hm"}, {"text": "a b"}, {"plan": []object{{"content": "do", "status": "pending"}}},
			{"tool": object{"name": "Bash", "arguments": object{"command": "ls"}, "pieces": []string{"a", "b"}, "exitCode": 1}},
		}
		return r.post(t, "/api/harness/turn", object{"sessionId": r.session(t, nil), "message": script(steps...)})
	},
	"harnessCreate": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/harness/session/create", object{"projectRoot": r.project, "cliType": "script"})
	},
	"harnessBoot": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/harness/session/boot", object{"sessionId": r.session(t, nil), "force": true})
	},
	"harnessList": func(t *testing.T, r *routes) answer {
		return r.get(t, "/api/harness/session/list?projectRoot="+url.QueryEscape(r.project))
	},
	"harnessStatus": func(t *testing.T, r *routes) answer { return r.get(t, "/api/harness/session/"+r.ended) },
	"harnessDelete": func(t *testing.T, r *routes) answer {
		return r.do(t, http.MethodDelete, "/api/harness/session/"+r.session(t, nil), nil)
	},
	"harnessInterrupt": func(t *testing.T, r *routes) answer {
		id, _ := r.running(t)
		return r.post(t, "/api/harness/interrupt", object{"sessionId": id})
	},

	"createToken": func(t *testing.T, r *routes) answer {
		return r.post(t, "/api/tokens", object{"name": "x", "scopes": []string{"read"}, "lifeDays": 1, "projectDir": r.project})
	},
	"listTokens": func(t *testing.T, r *routes) answer { return r.get(t, "/api/tokens") },
	"listAudit": func(t *testing.T, r *routes) answer {
		a := r.get(t, "/api/audit")
		if !bytes.Contains(a.body, []byte(`"kind":"server_started"`)) {
			t.Errorf("the log lacks the start of the server: %s", a.body)
		}
		return a
	},
	"verifyAudit": func(t *testing.T, r *routes) answer {
		a := r.get(t, "/api/audit/verify")
		if !bytes.Contains(a.body, []byte(`"ok":true`)) {
			t.Errorf("got %s", a.body)
		}
		return a
	},
	"revokeToken": func(t *testing.T, r *routes) answer {
		id := r.post(t, "/api/tokens", object{"name": "x", "scopes": []string{"read"}}).ok(t, http.StatusCreated)["id"]
		return r.post(t, "/api/tokens/"+id.(string)+"/revoke", object{})
	},
	"renameToken": func(t *testing.T, r *routes) answer {
		id := r.post(t, "/api/tokens", object{"name": "x", "scopes": []string{"read"}}).ok(t, http.StatusCreated)["id"]
		return r.post(t, "/api/tokens/"+id.(string)+"/rename", object{"name": "y"})
	},
	"createLoginCode": func(t *testing.T, r *routes) answer { return r.post(t, "/api/login/code", object{}) },
	"login": func(t *testing.T, r *routes) answer {
		_, login := r.browser(t)
		return login
	},
	"proveServer": func(t *testing.T, r *routes) answer {
		_, login := r.browser(t)
		return r.asPage().post(t, "/api/login/proof", object{"login": login.ok(t, http.StatusOK)["login"], "nonce": strings.Repeat("n", 22)})
	},
	"logout": func(t *testing.T, r *routes) answer {
		c, _ := r.browser(t)
		return c.post(t, "/api/logout", object{})
	},
}

// waiting creates a session with a turn that runs and prompts that wait for it.
func waiting(t *testing.T, s *server, prompts ...string) (session string, turns []string) {
	t.Helper()
	session, _ = s.running(t)
	for _, text := range prompts {
		sent := s.post(t, "/api/session/"+session+"/send", object{"content": text, "queue": true}).ok(t, http.StatusAccepted)
		turns = append(turns, sent["turnId"].(string))
	}
	return session, turns
}

// inQueue returns the prompts of a queue in order.
func inQueue(queue object) string {
	var texts []string
	for _, p := range queue["prompts"].([]any) {
		texts = append(texts, p.(object)["text"].(string))
	}
	all := strings.Join(texts, ", ")
	if queue["held"] == true {
		all = "held: " + all
	}
	return all
}

// followEvents reads the events of the session r.ended up to the end of its
// turn.
func followEvents(t *testing.T, r *routes) answer {
	res := r.open(t, http.MethodGet, "/api/session/"+r.ended+"/events", nil)
	defer func() { _ = res.Body.Close() }()
	var body bytes.Buffer
	s := streamOf(io.TeeReader(res.Body, &body))
	for f, ok := s.next(t); ok && !f.ends(); f, ok = s.next(t) {
	}
	return answer{"GET events", res.StatusCode, res.Header, body.Bytes()}
}

// sessionOf creates a session of an agent and returns its id.
func (s *server) sessionOf(t *testing.T, cliType string) string {
	t.Helper()
	return s.post(t, "/api/session/create", object{"cliType": cliType, "projectDir": s.project}).ok(t, http.StatusCreated)["sessionId"].(string)
}

// running creates a session with a turn that runs until it is cancelled.
func (s *server) running(t *testing.T) (session, turn string) {
	t.Helper()
	session = s.session(t, nil)
	turn = s.send(t, session, script(object{"text": "begun"}, object{"hang": true}))
	s.events(t, session, func(f frame) bool { return f.event == "item_delta" })
	return session, turn
}

// asking creates a session with a turn that waits for an approval.
func (s *server) asking(t *testing.T) (session string, approval object) {
	t.Helper()
	session = s.session(t, nil)
	s.send(t, session, script(object{"tool": object{"name": "Bash", "kind": "execute", "arguments": object{"command": "make"}, "ask": object{}}}))
	asked := s.events(t, session, func(f frame) bool { return f.event == "approval_requested" }).find("approval_requested")
	return session, asked.payload()["approval"].(object)
}

// inGit creates a session in a git repository with one changed file, and returns
// the path of its routes for git.
func (s *server) inGit(t *testing.T) string {
	t.Helper()
	dir := repository(t)
	write(t, dir, "a.txt", "two\n")
	made := s.post(t, "/api/session/create", object{"cliType": "script", "projectDir": dir}).ok(t, http.StatusCreated)
	return "/api/session/" + made["sessionId"].(string) + "/git"
}

// inWorktree creates a session with a worktree. It returns the path of the
// routes for it, and its folder.
func (s *server) inWorktree(t *testing.T) (path, dir string) {
	t.Helper()
	made := s.post(t, "/api/session/create", object{"cliType": "script", "projectDir": repository(t), "options": object{"worktree": true}}).ok(t, http.StatusCreated)
	return "/api/session/" + made["sessionId"].(string) + "/worktree", made["worktree"].(object)["root"].(string)
}

// repository returns a git repository with one commit.
func repository(t *testing.T) string {
	t.Helper()
	dir := folder(t)
	write(t, dir, "a.txt", "one\n")
	for _, args := range [][]string{
		{"init", "--quiet"}, {"config", "user.name", "Ada"}, {"config", "user.email", "ada@example.com"}, {"add", "."},
		{"commit", "--quiet", "--message", "first"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// rule stores a rule that affects no other test.
func (s *server) rule(t *testing.T) answer {
	t.Helper()
	return s.post(t, "/api/rules", object{"effect": "deny", "kind": "execute", "pattern": "never-run", "projectDir": s.project})
}

// A boundAnswer is the response that a token limited to another project
// receives.
type boundAnswer struct {
	says  string
	check func(t *testing.T, r *routes, op operation, bound client)
}

// boundAnswers returns these responses for the operations that are not about a
// session, by operationId.
func boundAnswers() map[string]boundAnswer {
	all := make(map[string]boundAnswer)
	for _, id := range []string{"metrics", "listAudit", "verifyAudit", "createToken", "listTokens", "renameToken", "revokeToken", "createLoginCode", "previewRetention", "applyRetention", "listFolders", "createFolder", "listMCPServers", "getMCPServer", "addMCPServer", "removeMCPServer"} {
		all[id] = boundAnswer{"403 FORBIDDEN", func(t *testing.T, r *routes, op operation, bound client) {
			_, path, body := r.request(op, r.ended)
			bound.do(t, op.method, path, body).fails(t, http.StatusForbidden, "FORBIDDEN")
		}}
	}
	for id, body := range map[string]func(r *routes) object{
		"createSession": func(r *routes) object { return object{"cliType": "script", "projectDir": r.project} },
		"harnessCreate": func(r *routes) object { return object{"cliType": "script", "projectRoot": r.project} },
	} {
		all[id] = boundAnswer{"404 WORKING_ROOT_INACCESSIBLE, as for a folder that does not exist", func(t *testing.T, r *routes, op operation, bound client) {
			bound.post(t, op.path, body(r)).fails(t, http.StatusNotFound, "WORKING_ROOT_INACCESSIBLE")
		}}
	}
	all["completeProjectFiles"] = boundAnswer{"404 WORKING_ROOT_INACCESSIBLE, as for a folder that does not exist", func(t *testing.T, r *routes, op operation, bound client) {
		bound.get(t, op.path+"?projectDir="+url.QueryEscape(r.project)).fails(t, http.StatusNotFound, "WORKING_ROOT_INACCESSIBLE")
	}}
	all["importSession"] = boundAnswer{"404 WORKING_ROOT_INACCESSIBLE, as for a folder that does not exist", func(t *testing.T, r *routes, op operation, bound client) {
		_, path, body := r.request(op, r.ended)
		bound.with("Content-Type", "application/octet-stream").do(t, op.method, path, body).fails(t, http.StatusNotFound, "WORKING_ROOT_INACCESSIBLE")
	}}
	for _, id := range []string{"listAgents", "docs", "me", "upload", "getPush", "subscribePush", "unsubscribePush"} {
		all[id] = boundAnswer{"as described, about no project but its own", func(t *testing.T, r *routes, op operation, bound client) {
			c, path, body := r.request(op, r.ended)
			a := c.with("Authorization", bound.header.Get("Authorization")).do(t, op.method, path, body)
			conforms(t, r.d, op, a)
			r.unseen(t, a)
		}}
	}
	for id, query := range map[string]string{"listSessions": "?projectId=*&all=1", "harnessList": "", "listProjects": "", "overview": "", "listConversations": "", "usage": "?by=session", "search": "?q=text", "listRules": "", "listProfiles": ""} {
		all[id] = boundAnswer{"200, without anything of this project", func(t *testing.T, r *routes, op operation, bound client) {
			r.rule(t)
			a := bound.get(t, op.path+query)
			a.ok(t, http.StatusOK)
			r.unseen(t, a)
		}}
	}
	all["getProfile"] = boundAnswer{"200 for a profile of all projects", func(t *testing.T, r *routes, _ operation, bound client) {
		bound.get(t, "/api/profiles/reviewer").ok(t, http.StatusOK)
	}}
	all["deleteRule"] = boundAnswer{"404 INVALID_REQUEST, as for an unknown rule", func(t *testing.T, r *routes, _ operation, bound client) {
		id := at(r.rule(t).ok(t, http.StatusCreated), "rule", "id").(float64)
		bound.do(t, http.MethodDelete, "/api/rules/"+number(id), nil).fails(t, http.StatusNotFound, "INVALID_REQUEST")
	}}
	all["createRule"] = boundAnswer{"403 FORBIDDEN for a folder of this project", func(t *testing.T, r *routes, op operation, bound client) {
		bound.post(t, op.path, object{"effect": "deny", "kind": "execute", "pattern": "x", "projectDir": r.project}).fails(t, http.StatusForbidden, "FORBIDDEN")
	}}
	all["explainRules"] = boundAnswer{"403 FORBIDDEN for a folder of this project", func(t *testing.T, r *routes, op operation, bound client) {
		bound.post(t, op.path, object{"cliType": "script", "tool": "Bash", "projectDir": r.project}).fails(t, http.StatusForbidden, "FORBIDDEN")
	}}
	all["logout"] = boundAnswer{"403 FORBIDDEN", all["metrics"].check}
	return all
}

// unseen reports an error if the response contains the id or the folder of the
// table's session.
func (r *routes) unseen(t *testing.T, a answer) {
	t.Helper()
	if strings.Contains(string(a.body), r.ended) || strings.Contains(string(a.body), r.project) {
		t.Errorf("%s shows another project: %s", a.what, a.body)
	}
}
