package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/internal/strictjson"
	"github.com/runnel-dev/runnel/provider/script"
)

func TestSessionAPI(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	evs := rg.events(id, rg.prompt(id, "tools"))
	st := call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200)
	if st.CLIType != "script" || st.ProjectDir == "" || st.ProjectID == "" || st.Title != "tools" || st.LastSeq < int64(len(evs)) || !st.IsAlive {
		t.Errorf("status %+v", st)
	}
	for _, target := range []string{"?projectId=" + st.ProjectID, "?projectDir=" + rg.dir, "?projectId=*"} {
		if list := call[listAnswer](rg, "GET", "/api/session/list"+target, "", 200); len(list.Sessions) != 1 || list.Sessions[0].SessionID != id {
			t.Errorf("%s lists %+v", target, list)
		}
	}
	if w := rg.do("GET", "/api/session/list", ""); w.Code != 400 || code(w) != "PROJECT_ID_REQUIRED" {
		t.Errorf("no project: %d %s", w.Code, w.Body)
	}
	if ans := call[createAnswer](rg, "POST", "/api/session/"+id+"/load", "", 200); ans.SessionID != id || ans.CLIType != "script" {
		t.Errorf("load %+v", ans)
	}
	if opts := call[command.OptionsAnswer](rg, "POST", "/api/session/"+id+"/options", `{"model":"m2","later":1}`, 200); opts.ModelID != "m2" || len(opts.Warnings) != 1 {
		t.Errorf("options %+v", opts)
	}
	if w := rg.do("POST", "/api/session/"+id+"/fork", "{}"); w.Code != 400 || code(w) != "UNSUPPORTED_CAPABILITY" {
		t.Errorf("fork: %d %s", w.Code, w.Body)
	}
	if ps := call[projectsAnswer](rg, "GET", "/api/projects", "", 200); len(ps.Projects) != 1 || ps.Projects[0].Sessions != 1 {
		t.Errorf("projects %+v", ps)
	}
	agents := call[agentsAnswer](rg, "GET", "/api/agents", "", 200).Agents
	if len(agents) != 1 || agents[0].CLIType != "script" || !agents[0].Installed || !slices.Contains(agents[0].Capabilities, runnel.CapRun) ||
		slices.Contains(agents[0].Modes, string(runnel.ModeBypass)) {
		t.Errorf("agents %+v", agents)
	}
	call[reply.Empty](rg, "POST", "/api/session/"+id+"/kill", "", 200)
	if w := rg.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`); w.Code != 409 || code(w) != "SESSION_DEAD" {
		t.Errorf("send to a dead one: %d %s", w.Code, w.Body)
	}
	if list := call[listAnswer](rg, "GET", "/api/session/list?projectId=*", "", 200); len(list.Sessions) != 0 {
		t.Errorf("still listed: %+v", list)
	}
	items := call[stream.ItemsAnswer](rg, "GET", "/api/session/"+id+"/items", "", 200)
	if len(items.Items) == 0 {
		t.Error("the transcript of a dead session is gone")
	}
}

func TestRefusals(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	const nobody = "0b5d3c1e-0000-7000-8000-000000000000"
	tests := []struct {
		method, target, body string
		status               int
		code                 string
	}{
		{"POST", "/api/session/create", `{"projectDir":"/"}`, 400, "UNSUPPORTED_CLI_TYPE"},
		{"POST", "/api/session/create", `{"cliType":"nobody","projectDir":"/"}`, 400, "UNSUPPORTED_CLI_TYPE"},
		{"POST", "/api/session/create", `{"cliType":"script"}`, 400, "INVALID_REQUEST"},
		{"POST", "/api/session/create", `{"cliType":"script","projectDir":"x"}`, 404, "WORKING_ROOT_INACCESSIBLE"},
		{"POST", "/api/session/create", `{"cliType":"script","projectDir":"/nonexistent"}`, 404, "WORKING_ROOT_INACCESSIBLE"},
		{"POST", "/api/session/create", `{"cliType":"script","projectDir":"/"}`, 409, "WORKING_ROOT_CONFLICT"},
		{"POST", "/api/session/create", `{"cliType":"script","projectDir":"` + rg.dir + `","options":{"permissionMode":"bypass"}}`, 400, "INVALID_REQUEST"},
		{"POST", "/api/session/create", `{"cliType":"script","projectDir":"` + rg.dir + `","options":{"persona":"x"}}`, 404, "PERSONA_NOT_FOUND"},
		{"POST", "/api/session/create", `{"cliType":"script","projectDir":"` + rg.dir + `","path":"/bin/sh"}`, 400, "INVALID_REQUEST"},
		{"POST", "/api/session/" + nobody + "/send", `{"content":"x"}`, 404, "SESSION_NOT_FOUND"},
		{"POST", "/api/session/../send", `{"content":"x"}`, 404, "INVALID_REQUEST"},
		{"POST", "/api/session/nobody:x/send", `{"content":"x"}`, 400, "UNSUPPORTED_CLI_TYPE"},
		{"POST", "/api/session/" + id + "/send", `{"content":""}`, 400, "INVALID_REQUEST"},
		{"POST", "/api/session/" + id + "/send", `{"content":"x","attachments":[{"path":"/etc/passwd"}]}`, 202, ""},
		{"POST", "/api/session/" + id + "/send", `{"content":"x","attachments":[{}]}`, 400, "INVALID_REQUEST"},
		{"POST", "/api/session/" + id + "/approvals/a", `{"choice":"allow"}`, 409, "APPROVAL_GONE"},
		{"POST", "/api/session/" + id + "/approvals/a", `{}`, 400, "INVALID_REQUEST"},
		{"POST", "/api/session/" + id + "/options", `{}`, 400, "INVALID_REQUEST"},
		{"POST", "/api/session/" + id + "/options", `{"permissionMode":"yolo"}`, 400, "INVALID_REQUEST"},
		{"GET", "/api/session/" + id + "/export?format=pdf", "", 400, "INVALID_REQUEST"},
		{"GET", "/api/session/list?projectId=*&all=yes", "", 400, "INVALID_REQUEST"},
		{"GET", "/api/agents?refresh=yes", "", 400, "INVALID_REQUEST"},
		{"DELETE", "/api/agents", "", 405, "INVALID_REQUEST"},
		{"DELETE", "/api/session/list", "", 404, "SESSION_NOT_FOUND"},
		{"DELETE", "/api/session/nobody:x", "", 400, "UNSUPPORTED_CLI_TYPE"},
		{"GET", "/api/session/create", "", 405, "INVALID_REQUEST"},
		{"HEAD", "/api/session/" + id + "/events", "", 405, "INVALID_REQUEST"},
		{"HEAD", "/api/me", "", 200, ""},
		{"GET", "/api/nothing", "", 404, "INVALID_REQUEST"},
		{"GET", "//api/me", "", 404, "INVALID_REQUEST"},
		{"POST", "/api/tokens/" + nobody + "/revoke", "{}", 404, "INVALID_REQUEST"},
		{"POST", "/api/tokens/" + nobody + "/rename", `{"name":"x"}`, 404, "INVALID_REQUEST"},
		{"POST", "/api/tokens/" + nobody + "/rename", `{"name":" x"}`, 400, "INVALID_REQUEST"},
	}
	for _, tt := range tests {
		w := rg.do(tt.method, tt.target, tt.body)
		if w.Code != tt.status || code(w) != tt.code {
			t.Errorf("%s %s %s: got %d %s", tt.method, tt.target, tt.body, w.Code, w.Body)
		}
		if w.Code >= 500 {
			t.Errorf("log: %s", rg.logged)
		}
		if tt.status == 202 {
			var ans command.SendAnswer
			if _ = json.Unmarshal(w.Body.Bytes(), &ans); len(ans.Warnings) != 1 || !strings.HasPrefix(ans.Warnings[0], "Attachment warning: 1 attachment(s)") {
				t.Errorf("no warning: %s", w.Body)
			}
			call[reply.Empty](rg, "POST", "/api/session/"+id+"/cancel", "", 200)
			rg.events(id, ans.TurnID)
		}
	}
}

func TestUploadsAndAttachments(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	octets := header("Content-Type", "application/octet-stream")
	w := rg.do("POST", "/api/uploads?name=notes.txt", "remember the milk", octets)
	var up struct{ UploadID, Path string }
	if err := json.Unmarshal(w.Body.Bytes(), &up); w.Code != 201 || err != nil || up.UploadID == "" {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	body := fmt.Sprintf(`{"content":"text","attachments":[{"uploadId":%q},{"path":%q,"name":"x","mimeType":"image/png"}]}`, up.UploadID, up.Path)
	turn := call[command.SendAnswer](rg, "POST", "/api/session/"+id+"/send", body, 202)
	if len(turn.Warnings) != 0 {
		t.Errorf("warnings %q", turn.Warnings)
	}
	evs := rg.events(id, turn.TurnID)
	i := slices.IndexFunc(evs, is[event.ItemDone])
	if m := evs[i].Body.(event.ItemDone).FinalItem.(event.Message); len(m.Attachments) != 2 || m.Attachments[0].Size != 17 {
		t.Errorf("the prompt is %+v", m)
	}
	if w := rg.do("POST", "/api/session/"+id+"/send", `{"content":"","attachments":[{"path":"/etc/passwd"}]}`); w.Code != 400 || code(w) != "ATTACHMENT_FAILURE" {
		t.Errorf("nothing left to send: %d %s", w.Code, w.Body)
	}
	for name, ct := range map[string]string{"form": "multipart/form-data; boundary=x", "json": "application/json", "none": ""} {
		if w := rg.do("POST", "/api/uploads?name=a.txt", "x", header("Content-Type", ct)); w.Code != 415 {
			t.Errorf("%s: got %d", name, w.Code)
		}
	}
}

// The server rejects bodies that are too large, and does not keep them in
// memory.
func TestOversize(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	big := `{"content":"` + strings.Repeat("a", reply.MaxBody) + `"}`
	octets := header("Content-Type", "application/octet-stream")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if res := s.roundTrip("POST", "/api/session/"+id+"/send", big); res.StatusCode != 413 {
		t.Errorf("1 MiB and more of JSON: %d", res.StatusCode)
	}
	exact := `{"content":"` + strings.Repeat("a", reply.MaxBody-len(`{"content":""}`)) + `"}`
	if res := s.roundTrip("POST", "/api/session/"+id+"/cancel", exact); res.StatusCode != 400 { // the field is unknown, but the body is not too large
		t.Errorf("1 MiB of JSON: %d", res.StatusCode)
	}
	if w := s.do("POST", "/api/uploads?name=a.txt", strings.Repeat("a", maxUpload+1), octets); w.Code != 413 {
		t.Errorf("19 MiB and more of upload: %d", w.Code)
	}
	if w := s.do("POST", "/api/uploads?name=a.txt", strings.Repeat("a", 10<<20+1), octets); w.Code != 413 {
		t.Errorf("more than a file may have: %d", w.Code)
	}
	endless := &endlessBody{}
	endless.left.Store(64 << 20)
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://own.localhost:7777/api/session/"+id+"/send", endless)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	if res, err := s.client.Do(req); err == nil {
		if res.Body.Close(); res.StatusCode != 413 {
			t.Errorf("endless: %d", res.StatusCode)
		}
	}
	if left := endless.left.Load(); left < 60<<20 {
		t.Errorf("%d bytes of an endless body were taken", 64<<20-left)
	}
	req, _ = http.NewRequestWithContext(t.Context(), "GET", "http://own.localhost:7777/api/health", nil)
	req.Header.Set("X-Big", strings.Repeat("a", 40<<10))
	if res, err := s.client.Do(req); err == nil {
		if res.Body.Close(); res.StatusCode != 431 {
			t.Errorf("40 KiB of header: %d", res.StatusCode)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

type endlessBody struct{ left atomic.Int64 }

func (e *endlessBody) Read(p []byte) (int, error) {
	n := int(min(int64(len(p)), e.left.Load()))
	e.left.Add(int64(-n))
	for i := range p[:n] {
		p[i] = 'a'
	}
	return n, nil
}

// Text that is not valid JSON or Unicode, or contains NUL, is rejected with the
// reason. Any other text arrives unchanged.
func TestHostileText(t *testing.T) {
	timed(t, minute)
	rg := newRig(t, func(_ *Config, g *gateway.Config) {
		g.Providers = []runnel.Provider{&script.Provider{Script: script.Script{Steps: []script.Step{{Text: "ok"}}}}}
	})
	id := rg.create()
	for name, content := range map[string]string{
		"NUL": `a\u0000b`, "raw NUL": "a\x00b", "high surrogate": `\ud800`, "low surrogate": `\udc00x`, "wrong order": `\udc00\ud800`,
		"surrogate, then text": `\ud83dx`, "invalid UTF-8": "\xff\xfe", "overlong": "\xc0\x80", "encoded surrogate": "\xed\xa0\x80", "control": "a\x01b",
	} {
		w := rg.do("POST", "/api/session/"+id+"/send", `{"content":"`+content+`"}`)
		if w.Code != 400 || code(w) != "INVALID_REQUEST" {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
		if !bytes.Contains(w.Body.Bytes(), []byte("string")) && !bytes.Contains(w.Body.Bytes(), []byte("UTF-8")) {
			t.Errorf("%s: no reason in %s", name, w.Body)
		}
	}
	for _, text := range []string{
		"\ufeffwith a BOM", "lines\u2028and\u2029paragraphs", "dos\r\nlines\r", "text\n{\"type\":\"control_request\"}\n", "😀 \U0010FFFF \uFFFD \uFFFE",
		"- [ ] todo", "--help", "-p", "/clear", "\u202etxt.exe", "\x7f\u0085",
	} {
		turn := rg.prompt(id, text)
		var prompts []string
		for _, ev := range rg.events(id, turn) {
			if done, ok := ev.Body.(event.ItemDone); ok && ev.Turn == turn {
				if m, ok := done.FinalItem.(event.Message); ok && m.Origin == event.OriginUser {
					prompts = append(prompts, m.Content)
				}
			}
		}
		if len(prompts) != 1 || prompts[0] != text {
			t.Errorf("%q arrived as %q", text, prompts)
		}
	}
}

// A body that JSON parsers could understand in different ways is rejected.
func TestJSONStrict(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	deep := func(n int) string {
		return `{"choice":"a","updatedArguments":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	bad := map[string]string{
		"duplicate":            `{"choice":"deny","choice":"allow"}`,
		"duplicate by escape":  `{"choice":"deny","ch\u006fice":"allow"}`,
		"nested duplicate":     `{"choice":"a","updatedArguments":{"a":[{"b":1,"b":2}]}}`,
		"upper case":           `{"CHOICE":"allow"}`,
		"both cases":           `{"choice":"deny","Choice":"allow"}`,
		"long s":               `{"choice":"a","reaſon":"x"}`,
		"other case, alone":    `{"choice":"a","REASON":"x"}`,
		"last letter":          `{"choicE":"allow"}`,
		"case by escape":       `{"\u0043hoice":"allow"}`,
		"key with a NUL":       `{"choice\u0000":"allow"}`,
		"lone surrogate key":   `{"\ud800choice":"allow"}`,
		"lone surrogate":       `{"choice":"a\udc00"}`,
		"-1e400":               `{"choice":"a","updatedArguments":-1e400}`,
		"hexadecimal":          `{"choice":"a","updatedArguments":0x10}`,
		"nothing but space":    "  ",
		"deep in an object":    `{"choice":"a","updatedArguments":` + strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65) + `}`,
		"unknown":              `{"choice":"allow","choices":[]}`,
		"deep 65":              deep(65),
		"deep 10k":             deep(10_000),
		"deep 100k":            deep(100_000),
		"1e400":                `{"choice":"a","updatedArguments":1e400}`,
		"huge int":             `{"choice":12345678901234567890}`,
		"trailing data":        `{"choice":"a"} {}`,
		"trailing garbage":     `{"choice":"a"}x`,
		"two values":           `{"choice":"a"}{"choice":"b"}`,
		"array":                `[{"choice":"a"}]`,
		"string":               `"choice"`,
		"number with a zero":   `{"choice":"a","updatedArguments":01}`,
		"number with a plus":   `{"choice":"a","updatedArguments":+1}`,
		"bare point":           `{"choice":"a","updatedArguments":1.}`,
		"NaN":                  `{"choice":"a","updatedArguments":NaN}`,
		"comment":              `{"choice":"a"/**/}`,
		"trailing comma":       `{"choice":"a",}`,
		"single quotes":        `{'choice':'a'}`,
		"unquoted key":         `{choice:"a"}`,
		"BOM":                  "\ufeff" + `{"choice":"a"}`,
		"half":                 `{"choice":"a"`,
		"unknown escape":       `{"choice":"\x61"}`,
		"half escape":          `{"choice":"\u00"}`,
		"wrong type":           `{"choice":true}`,
		"many members":         `{"choice":"a","updatedArguments":{` + members(strictjson.MaxKeys+1) + `}}`,
		"lots of little":       `{"choice":"a","updatedArguments":[` + strings.Repeat("{},", 349_000) + `{}]}`,
		"invalid key encoding": "{\"choice\xff\":\"a\"}",
	}
	delete(bad, "lots of little") // allowed if it fits; see below
	for name, body := range bad {
		w := rg.do("POST", "/api/session/"+id+"/approvals/a", body)
		if w.Code != 400 || code(w) != "INVALID_REQUEST" {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if w := rg.do("POST", "/api/session/"+id+"/approvals/a", "["+strings.Repeat("{},", 10<<20/3)+"{}]"); w.Code != 413 {
		t.Errorf("10 MiB of little objects: got %d %s", w.Code, w.Body)
	}
	body := `{"choice":"a","updatedArguments":[` + strings.Repeat("{},", 349_000) + `{}]}`
	if w := rg.do("POST", "/api/session/"+id+"/approvals/a", body); w.Code != 409 {
		t.Errorf("many little objects: got %d %s", w.Code, w.Body)
	}
	runtime.ReadMemStats(&after)
	if took := int64(after.TotalAlloc - before.TotalAlloc); took > 64<<20 {
		t.Errorf("%d bytes were allocated for a body of %d", took, len(body))
	}
	for name, body := range map[string]string{
		"as it should be":     `{"choice":"a","updatedArguments":{"a":1,"A":2,"n":12345678901234567890,"s":"\ud83d\ude00"},"reason":"x"}`,
		"deep 62":             deep(62),
		"white space":         " \n\t{ \"choice\" : \"a\" } \r\n",
		"numbers of any form": `{"choice":"a","updatedArguments":[0,-0,1.5e-3,1E+2,-12.0]}`,
	} {
		if w := rg.do("POST", "/api/session/"+id+"/approvals/a", body); w.Code != 409 { // it was decoded, but the approval does not exist
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	return b.String()[1:]
}

// Only the first of concurrent decisions counts. A decision about another
// session, approval or argument digest is rejected.
func TestDecisionsOverHTTP(t *testing.T) {
	rg := newRig(t)
	id, other := rg.create(), rg.create()
	rg.prompt(id, "approve")
	a := rg.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	at := func(session, approval string) string { return "/api/session/" + session + "/approvals/" + approval }
	for name, tt := range map[string]struct{ target, body string }{
		"other session": {at(other, a.ID), `{"choice":"allow"}`},
		"other id":      {at(id, a.ID+"0"), `{"choice":"allow"}`},
		"other digest":  {at(id, a.ID), `{"choice":"allow","argumentsDigest":"00"}`},
	} {
		if w := rg.do("POST", tt.target, tt.body); w.Code != 409 || code(w) != "APPROVAL_GONE" {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
	var first, later atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		choice := []string{"allow", "deny"}[i%2]
		all.Go(func() {
			switch w := rg.do("POST", at(id, a.ID), fmt.Sprintf(`{"choice":%q,"argumentsDigest":%q}`, choice, a.ArgumentsDigest)); w.Code {
			case 200:
				first.Add(1)
			case 409:
				later.Add(1)
			default:
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	if first.Load() != 1 || later.Load() != 19 {
		t.Errorf("%d decided, %d were late", first.Load(), later.Load())
	}
}

// A program without a person behind it may deny, and the log says that no
// person decided. It may not allow.
func TestAutomaticDecisionOnlyDenies(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	rg.prompt(id, "approve")
	a := rg.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	at := "/api/session/" + id + "/approvals/" + a.ID
	for name, body := range map[string]string{
		"allow":                `{"choice":"allow","automatic":true,"argumentsDigest":"` + a.ArgumentsDigest + `"}`,
		"allow in the session": `{"choice":"allow_session","automatic":true,"argumentsDigest":"` + a.ArgumentsDigest + `"}`,
		"no choice of it":      `{"choice":"other","automatic":true}`,
		"deny and change":      `{"choice":"deny","automatic":true,"updatedArguments":{}}`,
		"deny and remember":    `{"choice":"deny","automatic":true,"argumentsDigest":"` + a.ArgumentsDigest + `","remember":{"kind":"execute","pattern":"rm -r build"}}`,
	} {
		if w := rg.do("POST", at, body); w.Code != 400 || code(w) != "INVALID_REQUEST" {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
	if w := rg.do("POST", at, `{"choice":"deny","automatic":true,"reason":"nobody is here"}`); w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	got := rg.until(id, is[event.ApprovalResolved]).Body.(event.ApprovalResolved)
	if got.By != event.ByPolicy || got.Choice != "deny" || got.Reason != "nobody is here" {
		t.Errorf("recorded as %+v", got)
	}
}

// Of 100 concurrent prompts, one begins a turn and the others are rejected.
func TestSecondTurnIsRejected(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	for _, end := range []string{"cancel", "kill"} {
		got := map[int]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				w := rg.do("POST", "/api/session/"+id+"/send", `{"content":"hang"}`)
				mu.Lock()
				got[w.Code]++
				mu.Unlock()
			})
		}
		all.Wait()
		if got[202] != 1 || got[409] != 99 {
			t.Fatalf("got %v", got)
		}
		call[reply.Empty](rg, "POST", "/api/session/"+id+"/"+end, "", 200)
		if end == "kill" {
			call[createAnswer](rg, "POST", "/api/session/"+id+"/load", "", 200)
		}
		for version := int64(0); call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200).TurnID != ""; {
			changed := rg.gw.Changed(version)
			_, version = rg.gw.Changes(version)
			<-changed
		}
	}
	rg.events(id, rg.prompt(id, "text"))
}

// A turn continues to its end when all its clients have disconnected.
func TestAllClientsLeaveMidTurn(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	p := s.join(stream.FamilyUpsert)
	p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
	p.await("session:history")
	res := s.get("/api/session/" + id + "/events")
	turn := s.prompt(id, `{"steps":[{"text":"one "},{"text":"two ","pauseMs":50},{"text":"three"}]}`)
	p.await("session:upsert")
	_ = p.conn.CloseNow()
	res.Body.Close()
	evs := s.events(id, turn)
	if done, ok := evs[len(evs)-1].Body.(event.ResponseDone); !ok || done.Status != event.StatusCompleted {
		t.Errorf("ended %+v", evs[len(evs)-1].Body)
	}
	var texts []string
	for _, raw := range call[stream.ItemsAnswer](s.rig, "GET", "/api/session/"+id+"/items", "", 200).Items {
		var e struct {
			Payload struct {
				Status  string
				Message *event.Message
			}
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		if m := e.Payload.Message; m != nil && m.Origin == event.OriginAgent && e.Payload.Status == "complete" {
			texts = append(texts, m.Content)
		}
	}
	if strings.Join(texts, "") != "one two three" {
		t.Errorf("the history has %q", texts)
	}
}

func TestExport(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	evil := `<script>alert(1)</script><img src=x onerror=alert(2)>`
	quoted, _ := json.Marshal(evil + " ```` ")
	evs := rg.events(id, rg.prompt(id, fmt.Sprintf(`{"steps":[{"text":%s},{"tool":{"name":"<b>","title":"<i>","output":%s}}]}`, quoted, quoted)))
	jsonl := rg.do("GET", "/api/session/"+id+"/export?format=jsonl", "")
	lines := strings.Split(strings.TrimSpace(jsonl.Body.String()), "\n")
	if jsonl.Code != 200 || len(lines) < len(evs) {
		t.Errorf("jsonl: %d, %d lines of %d", jsonl.Code, len(lines), len(evs))
	}
	for _, l := range lines {
		var ev event.Event
		if err := json.Unmarshal([]byte(l), &ev); err != nil {
			t.Fatal(err)
		}
	}
	page := rg.do("GET", "/api/session/"+id+"/export?format=html", "")
	if body := page.Body.String(); strings.Contains(body, "<script") || strings.Contains(body, "<img") || strings.Contains(body, "<b>") || !strings.Contains(body, "&lt;script&gt;") {
		t.Errorf("html: %s", body)
	}
	md := rg.do("GET", "/api/session/"+id+"/export?format=md", "")
	if body := md.Body.String(); !strings.Contains(body, "`````") || !strings.Contains(body, "## Prompt") {
		t.Errorf("md: %s", body)
	}
	for w, media := range map[*http.Response]string{
		jsonl.Result(): "application/jsonl", page.Result(): "text/html; charset=utf-8", md.Result(): "text/markdown; charset=utf-8",
	} {
		if got := w.Header.Get("Content-Type"); got != media {
			t.Errorf("the media type is %s, want %s", got, media)
		}
		if w.Header.Get("Content-Disposition") != `attachment; filename="`+id+strings.TrimPrefix(w.Header.Get("Content-Disposition"), `attachment; filename="`+id) ||
			!strings.HasPrefix(w.Header.Get("Content-Security-Policy"), "sandbox") || w.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers %v", w.Header)
		}
	}
}

// heldProbe is an agent whose probe ends when the test allows it.
type heldProbe struct {
	runnel.Provider
	end chan struct{}
}

func (p heldProbe) Probe(ctx context.Context) runnel.Installation {
	select {
	case <-p.end:
	case <-ctx.Done():
	}
	return runnel.Installation{Installed: true}
}

// The overview has what the three lists have, and does not wait for agents.
func TestOverviewHasAllSessionsAgentsAndProjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := heldProbe{script.New(), make(chan struct{})}
		rg := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{held} })
		ended, open := rg.create(), rg.create()
		call[reply.Empty](rg, "POST", "/api/session/"+ended+"/kill", "", 200)
		began := time.Now()
		early := call[overviewAnswer](rg, "GET", "/api/overview", "", 200)
		if waited := time.Since(began); waited != 0 || len(early.Agents) != 1 || !early.Agents[0].Checking || len(early.Sessions) != 2 {
			t.Errorf("before the probe has ended, after %v: %+v", waited, early)
		}
		close(held.end)
		agents := call[agentsAnswer](rg, "GET", "/api/agents", "", 200).Agents
		all := call[overviewAnswer](rg, "GET", "/api/overview", "", 200)
		if !cmp.Equal(all.Agents, agents) || !all.Agents[0].Installed || all.Agents[0].Checking {
			t.Errorf("agents %+v, want %+v", all.Agents, agents)
		}
		sessions := call[listAnswer](rg, "GET", "/api/session/list?projectId=*&all=true", "", 200).Sessions
		if !cmp.Equal(all.Sessions, sessions) {
			t.Errorf("sessions %+v, want %+v", all.Sessions, sessions)
		}
		var ids []string
		for _, st := range all.Sessions {
			ids = append(ids, st.SessionID)
		}
		if len(ids) != 2 || !slices.Contains(ids, ended) || !slices.Contains(ids, open) {
			t.Errorf("sessions %v, want %s and %s", ids, ended, open)
		}
		if len(all.Projects) != 1 || all.Projects[0].Sessions != 2 {
			t.Errorf("projects %+v", all.Projects)
		}
	})
}

func TestEmptyOverviewHasEmptyLists(t *testing.T) {
	w := newRig(t).do("GET", "/api/overview", "")
	if body := w.Body.String(); !strings.Contains(body, `"sessions":[]`) || !strings.Contains(body, `"projects":[]`) {
		t.Errorf("got %d %s", w.Code, body)
	}
}

// A flag of a query is true or false; 1 and 0 mean the same.
func TestQueryFlagsAreBooleans(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	rg.do("POST", "/api/session/"+id+"/kill", "{}")
	for flag, want := range map[string]int{"": 0, "&all=false": 0, "&all=0": 0, "&all=true": 1, "&all=1": 1} {
		got := call[listAnswer](rg, "GET", "/api/session/list?projectId=*"+flag, "", 200)
		if len(got.Sessions) != want {
			t.Errorf("%q lists %d sessions, want %d", flag, len(got.Sessions), want)
		}
	}
}

func TestDocument(t *testing.T) {
	rg := newRig(t)
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct{ Schemas map[string]json.RawMessage }
		WebSocket  struct{ Path string } `json:"x-websocket"`
	}
	w := rg.do("GET", "/openapi.json", "")
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Fatalf("%v in %.200s", err, w.Body)
	}
	n := 0
	for _, rt := range rg.router.list {
		if rt.name == "" || rt.path == doc.WebSocket.Path {
			continue
		}
		n++
		if doc.Paths[rt.path][strings.ToLower(rt.method)].OperationID != rt.name {
			t.Errorf("%s is not in the document", rt.pattern())
		}
	}
	if n < 25 {
		t.Errorf("only %d routes are described", n)
	}
	for m := range strings.SplitSeq(w.Body.String(), `"#/components/schemas/`) {
		if name, _, ok := strings.Cut(m, `"`); ok && !strings.HasPrefix(m, "{") && doc.Components.Schemas[name] == nil {
			t.Errorf("the document refers to %s, which is not there", name)
		}
	}
	if w := rg.do("GET", "/docs", ""); w.Code != 200 || strings.Contains(w.Body.String(), "<script") || !strings.Contains(w.Body.String(), "/api/session/create") {
		t.Errorf("docs: %d %s", w.Code, w.Body)
	}
}
