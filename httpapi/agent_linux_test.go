package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

const toolVar = "HTTPAPI_TEST_TOOL" // network and address that this program calls, instead of testing

func init() {
	if at := os.Getenv(toolVar); at != "" {
		os.Exit(tool(at))
	}
}

// tool plays the tool of an agent: it sends what it reads on standard input,
// and prints the answer. With "orphan" it first leaves its parent.
func tool(at string) int {
	if at, ok := strings.CutPrefix(at, "orphan "); ok {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), toolVar+"="+at)
		cmd.Stdin, cmd.Stdout, cmd.SysProcAttr = os.Stdin, os.Stdout, &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil {
			return 1
		}
		return 0
	}
	network, address, _ := strings.Cut(at, " ")
	request, _ := io.ReadAll(os.Stdin) // the end of the input: the test has seen our parent end
	c, err := net.Dial(network, address)
	if err != nil {
		return 1
	}
	_, _ = c.Write(request)
	_, _ = io.Copy(os.Stdout, c)
	return 0
}

// An agent that has every existing credential still cannot answer its own
// approvals.
func TestAgentSelfApprove(t *testing.T) {
	timed(t, minute)
	rg := newRig(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	hs := rg.HTTPServer()
	done := make(chan struct{}, 2)
	for _, ln := range []net.Listener{tcp, unix} {
		go func() { _ = hs.Serve(ln); done <- struct{}{} }()
	}
	defer func() {
		_ = hs.Shutdown(context.Background())
		<-done
		<-done
	}()

	id := rg.create()
	rg.prompt(id, "approve")
	asked := rg.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	login := rg.login()
	code, err := rg.keyed.LoginCode(t.Context(), auth.All())
	if err != nil {
		t.Fatal(err)
	}
	narrow := rg.mint(auth.Read, auth.Send)
	bound, _, err := rg.keyed.Create(t.Context(), auth.Grant{Name: "bound", Scopes: []auth.Scope{auth.Read, auth.Send, auth.Approve}, Project: rg.dir})
	if err != nil {
		t.Fatal(err)
	}
	call := func(who string, ln net.Listener, target, body string, headers ...string) (int, string) {
		t.Helper()
		method, p, _ := strings.Cut(target, " ")
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), toolVar+"="+who+ln.Addr().Network()+" "+ln.Addr().String())
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if who != "" { // only the orphan continues
			if _, err := cmd.Process.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(in, "%s %s HTTP/1.1\r\nHost: own.localhost\r\nConnection: close\r\n", method, p)
		for _, h := range headers {
			fmt.Fprintf(in, "%s\r\n", h)
		}
		if method == "POST" {
			fmt.Fprintf(in, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
		}
		fmt.Fprintf(in, "\r\n%s", body)
		in.Close()
		answer, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		var status int
		if _, err := fmt.Sscanf(string(answer), "HTTP/1.1 %d", &status); err != nil {
			t.Fatalf("%s: %v in %q", target, err, answer)
		}
		_, content, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
		var e reply.ErrorBody
		_ = json.Unmarshal(content, &e)
		return status, string(e.Error.Type)
	}

	decide, yes := "POST /api/session/"+id+"/approvals/"+asked.ID, `{"choice":"allow","argumentsDigest":"`+asked.ArgumentsDigest+`"}`
	rg.addRule(`{"effect":"deny","kind":"execute","pattern":"shutdown *"}`, 201) // the rule answers no approval of this test
	rule := `{"effect":"allow","kind":"execute","pattern":"git status"}`
	bearer := "Authorization: Bearer " + rg.token
	page := []string{"Cookie: " + browser.CookieName + "=" + login.Cookie, browser.KeyHeader + ": " + login.Key, "Sec-Fetch-Site: same-origin"}
	for name, tt := range map[string]struct {
		ln           net.Listener
		target, body string
		headers      []string
		want         int
		code         string
	}{
		"with nothing":                   {tcp, decide, yes, nil, 401, "UNAUTHORIZED"},
		"with every scope":               {tcp, decide, yes, []string{bearer}, 403, "FORBIDDEN"},
		"as the page":                    {tcp, decide, yes, page, 403, "FORBIDDEN"},
		"over the unix socket":           {unix, decide, yes, nil, 403, "FORBIDDEN"},
		"there with every scope":         {unix, decide, yes, []string{bearer}, 403, "FORBIDDEN"},
		"a new token":                    {tcp, "POST /api/tokens", `{"name":"x","scopes":["approve"]}`, []string{bearer}, 403, "FORBIDDEN"},
		"a link":                         {unix, "POST /api/login/code", "{}", []string{bearer}, 403, "FORBIDDEN"},
		"a link that it found":           {tcp, "POST /api/login", `{"code":"` + code + `"}`, nil, 403, "FORBIDDEN"},
		"an answer in advance":           {tcp, "POST /api/session/" + id + "/options", `{"permissionMode":"acceptEdits"}`, []string{bearer}, 403, "FORBIDDEN"},
		"a rule":                         {tcp, "POST /api/rules", rule, []string{bearer}, 403, "FORBIDDEN"},
		"a rule over the unix socket":    {unix, "POST /api/rules", rule, nil, 403, "FORBIDDEN"},
		"a rule of its project":          {tcp, "POST /api/rules", rule, []string{"Authorization: Bearer " + bound}, 403, "FORBIDDEN"},
		"an answer that becomes a rule":  {tcp, decide, strings.Replace(yes, "}", `,"remember":`+rule+"}", 1), []string{bearer}, 403, "FORBIDDEN"},
		"to remove a rule that denies":   {unix, "DELETE /api/rules/1", "", nil, 403, "FORBIDDEN"},
		"to read what others do":         {tcp, "GET /api/session/list?projectId=*", "", []string{"Authorization: Bearer " + narrow}, 403, "FORBIDDEN"},
		"there to read what others do":   {unix, "GET /api/session/list?projectId=*", "", []string{"Authorization: Bearer " + narrow}, 403, "FORBIDDEN"},
		"to read with a project's token": {tcp, "GET /api/session/list?projectId=*", "", []string{"Authorization: Bearer " + bound}, 200, ""},
		"there with a project's token":   {unix, "GET /api/session/list?projectId=*", "", []string{"Authorization: Bearer " + bound}, 200, ""},
		"to approve with it":             {tcp, decide, yes, []string{"Authorization: Bearer " + bound}, 403, "FORBIDDEN"},
	} {
		status, code := call("", tt.ln, tt.target, tt.body, tt.headers...)
		if status != tt.want || code != tt.code {
			t.Errorf("%s: got %d %s, want %d %s", name, status, code, tt.want, tt.code)
		}
	}
	if rules := rg.gw.Approvals().Rules(); len(rules) != 1 || rules[0].ID != 1 {
		t.Errorf("the rules are %+v", rules)
	}
	if st, err := rg.gw.Status(t.Context(), id); err != nil || len(st.PendingApprovals) != 1 {
		t.Fatalf("the question was answered: %+v, %v", st, err)
	}
	if !strings.Contains(rg.logged.String(), "an agent may have started") || strings.Contains(rg.logged.String(), rg.token[4:20]) {
		t.Errorf("logged %s", rg.logged)
	}

	// Its wrong guesses do not count against the user.
	for range 15 {
		call("", tcp, "GET /api/me", "", "Authorization: Bearer rnl_"+strings.Repeat("A", 43))
	}
	if status, _ := call("orphan ", tcp, "GET /api/me", "", "Authorization: Bearer "+rg.mint(auth.Read)); status != 200 {
		t.Errorf("a token that was never used before: got %d", status)
	}

	// The same requests from a process that no agent started.
	for name, tt := range map[string]struct {
		ln           net.Listener
		target, body string
		headers      []string
	}{
		"the page":        {tcp, "GET /api/me", "", page},
		"the socket":      {unix, "GET /api/me", "", nil},
		"the link":        {tcp, "POST /api/login", `{"code":"` + code + `"}`, nil},
		"the answer":      {unix, decide, yes, nil},
		"another's token": {tcp, "GET /api/tokens", "", []string{bearer}},
	} {
		if status, code := call("orphan ", tt.ln, tt.target, tt.body, tt.headers...); status != http.StatusOK {
			t.Errorf("%s, of a stranger: got %d %s", name, status, code)
		}
	}
	if me := slices.IndexFunc(rg.events(id, rg.until(id, is[event.ApprovalResolved]).Turn), is[event.ApprovalResolved]); me < 0 {
		t.Error("the user's answer did not count")
	}
}
