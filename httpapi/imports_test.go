package httpapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
)

var octetStream = header("Content-Type", "application/octet-stream")

// importFile imports a file. The answer must have status.
func (rg *rig) importFile(file, more string, status int) (im gateway.Imported, message string) {
	rg.t.Helper()
	w := rg.do("POST", "/api/session/import?projectDir="+url.QueryEscape(rg.dir)+more, file, octetStream)
	if w.Code != status {
		rg.t.Fatalf("got %d %s, want %d", w.Code, w.Body, status)
	}
	if status != http.StatusCreated {
		return im, w.Body.String()
	}
	if err := json.Unmarshal(w.Body.Bytes(), &im); err != nil {
		rg.t.Fatal(err)
	}
	return im, ""
}

func (rg *rig) exportOf(id string) string {
	rg.t.Helper()
	w := rg.do("GET", "/api/session/"+id+"/export?format=jsonl", "")
	if w.Code != http.StatusOK {
		rg.t.Fatal(w.Code, w.Body)
	}
	return w.Body.String()
}

// entriesOf returns the history of a session without what differs between a
// session and its import: the ids of sessions and the positions in the log.
func (rg *rig) entriesOf(id string) (entries []string) {
	rg.t.Helper()
	var page struct {
		Items []struct {
			Type    string          `json:"type"`
			Payload json.RawMessage `json:"payload"`
		} `json:"items"`
		More bool `json:"more"`
	}
	w := rg.do("GET", "/api/session/"+id+"/items?limit=1000", "")
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.More {
		rg.t.Fatal(err, page.More)
	}
	for _, it := range page.Items {
		text := regexp.MustCompile(`"(seq|emittedAt)":("[^"]*"|\d+),?`).ReplaceAllString(string(it.Payload), "")
		entries = append(entries, it.Type+strings.ReplaceAll(text, id, "ID"))
	}
	return entries
}

// played is a session with every kind of turn: completed, failed and cancelled,
// with tools, approvals, plans and reasoning.
func (rg *rig) played() string {
	rg.t.Helper()
	id := rg.create()
	for _, prompt := range []string{"approve", "text", `{"steps":[{"reasoning":"hm <&>"},{"text":"\u0000\u2028"},{"fail":{"code":"AGENT_ERROR","message":"no"}}]}`, `{"steps":[{"plan":[{"content":"a","status":"pending"}]},{"crash":true}]}`} {
		turn := rg.prompt(id, prompt)
		if prompt == "approve" {
			asked := rg.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
			rg.untilPending(id)
			rg.do("POST", "/api/session/"+id+"/approvals/"+url.PathEscape(asked.ID), `{"choice":"`+asked.Choices[0].ID+`","argumentsDigest":"`+asked.ArgumentsDigest+`"}`)
		}
		rg.events(id, turn)
	}
	turn := rg.prompt(id, "hang")
	rg.do("POST", "/api/session/"+id+"/cancel", "{}")
	rg.events(id, turn)
	return id
}

func TestImportedSessionEqualsTheExportedOne(t *testing.T) {
	timed(t, minute)
	rg := newRig(t)
	id := rg.played()
	file := rg.exportOf(id)
	im, _ := rg.importFile(file, "", http.StatusCreated)
	if im.From != id || im.SessionID == id || im.CLIType != "script" || im.Turns != 5 || im.Events != strings.Count(file, "\n") {
		t.Errorf("%+v", im)
	}
	want, got := rg.entriesOf(id), rg.entriesOf(im.SessionID)
	if len(want) < 10 || len(got) != len(want)+1 {
		t.Fatalf("%d entries of %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("entry %d is\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
	if last := got[len(got)-1]; !strings.Contains(last, gateway.SessionImported) || !strings.Contains(last, id) {
		t.Errorf("the last entry is %s", last)
	}
	st := call[gateway.Status](rg, "GET", "/api/session/"+im.SessionID+"/status", "", 200)
	was := call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200)
	if st.Title != was.Title || st.AgentSessionID != "" || st.State != event.StateOpen || st.LastSeq == 0 || st.ProjectDir != was.ProjectDir {
		t.Errorf("%+v, was %+v", st, was)
	}
	rg.events(im.SessionID, rg.prompt(im.SessionID, "text")) // a new conversation of the agent
	st = call[gateway.Status](rg, "GET", "/api/session/"+im.SessionID+"/status", "", 200)
	if st.AgentSessionID == "" || st.AgentSessionID == was.AgentSessionID {
		t.Errorf("the conversation of the agent is %q, was %q", st.AgentSessionID, was.AgentSessionID)
	}
	again, _ := rg.importFile(rg.exportOf(im.SessionID), "&cliType=script", http.StatusCreated)
	if !reflect.DeepEqual(rg.entriesOf(again.SessionID)[:len(want)], want) {
		t.Error("the import of an import differs")
	}
}

// What a file says about the agent's conversation, its permissions and its
// files does not hold for the imported session.
func TestImportLeavesOutWhatAnAgentReported(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	rg.events(id, rg.prompt(id, `{"steps":[{"session":{"permissionMode":"bypass","modelId":"m","title":"T","files":[{"path":"/etc/passwd","kind":"plan"}]}},{"text":"a"}]}`))
	file := rg.exportOf(id)
	for _, part := range []string{`"agentSessionId":"`, `"permissionMode":"bypass"`, "/etc/passwd"} {
		if !strings.Contains(file, part) {
			t.Fatalf("%s is not in %s", part, file)
		}
	}
	im, _ := rg.importFile(file, "", http.StatusCreated)
	st := call[gateway.Status](rg, "GET", "/api/session/"+im.SessionID+"/status", "", 200)
	if st.PermissionMode != "" || st.AgentSessionID != "" || st.Title != "T" || len(st.Files) > 0 {
		t.Errorf("%+v", st)
	}
	if copied := rg.exportOf(im.SessionID); strings.Contains(copied, `"path":"/etc/passwd"`) || strings.Contains(copied, `"permissionMode":"bypass"`) || strings.Contains(copied, "agentSessionId") {
		t.Error(copied)
	}
}

func TestRefusedImportLeavesNoSession(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	rg.events(id, rg.prompt(id, "text"))
	file := rg.exportOf(id)
	lines := strings.SplitAfter(file, "\n")
	n := len(lines) - 1
	for _, tt := range []struct {
		file, more string
		status     int
		want       string
	}{
		{"", "", 400, "the file has no events"},
		{strings.Join(lines[:n-1], ""), "", 400, "has no end"},
		{file + lines[n-1], "", 400, "does not follow"},
		{file + "{}\n", "", 400, "line " + strconv.Itoa(n+1) + ": "},
		{file, "&cliType=nobody", 400, "UNSUPPORTED_CLI_TYPE"},
		{strings.ReplaceAll(file, `"providerId":"script"`, `"providerId":"nobody"`), "", 400, "UNSUPPORTED_CLI_TYPE"},
		{lines[0], "", 400, ""},
	} {
		if _, message := rg.importFile(tt.file, tt.more, tt.status); !strings.Contains(message, tt.want) {
			t.Errorf("%s, want %s", message, tt.want)
		}
	}
	rg.wantError("POST", "/api/session/import?projectDir=/", file, 415, runnel.InvalidRequest)
	own, whole := rg.dir, rg.token
	rg.dir = "/nowhere"
	rg.importFile(file, "", 404)
	rg.dir = t.TempDir()
	rg.token = rg.bind(own, "read", "send")
	rg.importFile(file, "", 404)
	rg.token = rg.mint("read")
	rg.importFile(file, "", 403)
	rg.token = whole
	if list := call[listAnswer](rg, "GET", "/api/session/list?projectId=*&all=true&archived=true", "", 200).Sessions; len(list) != 1 {
		t.Errorf("listed %+v", list)
	}
	if left, err := rg.log.Heads(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("the log has %v, %v", left, err)
	}
}
