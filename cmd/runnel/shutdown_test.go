//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel/internal/testload"
)

// A server that receives SIGTERM sends each stream the cursor at which to
// resume, ends its turns and exits soon.
func TestGracefulShutdownTellsEveryStreamWhereToResume(t *testing.T) {
	data, project := t.TempDir()+"/data", t.TempDir()
	cmd := exec.Command("runnel", "serve", "--listen", "127.0.0.1:0", "--data", data)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	said := bufio.NewReader(out)
	url := ""
	for url == "" {
		line, err := said.ReadString('\n')
		if err != nil {
			t.Fatalf("%v: %s", err, stderr.Bytes())
		}
		if m := apiAt.FindStringSubmatch(line); m != nil {
			url = m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	token, err := exec.Command("runnel", "token", "create", "t", "--scope", "read,send", "--data", data).Output()
	if err != nil {
		t.Fatal(err)
	}
	bearer := http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(token))}}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	do := func(method, path, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = bearer.Clone()
		req.Header.Set("Content-Type", "application/json")
		if body == "" {
			req.Body = http.NoBody
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode >= 300 {
			text, _ := io.ReadAll(res.Body)
			t.Fatalf("%s: %d %s", path, res.StatusCode, text)
		}
		return res
	}
	const sessions, each = 10, 10
	var ready, over sync.WaitGroup
	for range sessions {
		res := do("POST", "/api/session/create", fmt.Sprintf(`{"cliType":"script","projectDir":%q}`, project))
		var made struct{ SessionID string }
		if err := json.NewDecoder(res.Body).Decode(&made); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		for i := range each {
			ready.Add(1)
			switch {
			case i == 0: // the stream of the turn
				over.Go(func() {
					watchSSE(t, do("POST", "/api/harness/turn", fmt.Sprintf(`{"sessionId":%q,"message":"hang"}`, made.SessionID)).Body, "session:init", ready.Done)
				})
				ready.Wait()
			case i < each/2:
				over.Go(func() {
					watchSSE(t, do("GET", "/api/session/"+made.SessionID+"/events", "").Body, "response_start", ready.Done)
				})
			default:
				over.Go(func() { watchSocket(t, url, bearer, made.SessionID, ready.Done) })
			}
		}
	}
	ready.Wait()
	began := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	over.Wait()
	told := time.Since(began)
	err = cmd.Wait()
	took := time.Since(began)
	testload.Within(t, "the end", began, 10*time.Second)
	if err != nil {
		t.Errorf("ended after %v: %v\n%s", took, err, stderr.Bytes())
	}
	t.Logf("%d streams were told after %v, the end was after %v", sessions*each, told, took)
}

// watchSSE reads a stream to its end. The last frame must contain the cursor at
// which to resume.
func watchSSE(t *testing.T, body io.ReadCloser, first string, ready func()) {
	defer body.Close()
	lines := bufio.NewReader(body)
	name, last, id := "", "", ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch field {
		case "event":
			if name = value; name == first {
				ready()
			}
		case "id":
			id = value
		case "data":
			last = value
		}
	}
	var end struct {
		Seq    int64
		Reason string
	}
	if err := json.Unmarshal([]byte(last), &end); err != nil || name != "stream:end" || end.Reason != "server_shutdown" || fmt.Sprint(end.Seq) < id && len(fmt.Sprint(end.Seq)) <= len(id) {
		t.Errorf("a stream ends with %s %s after %s", name, last, id)
	}
}

func watchSocket(t *testing.T, url string, header http.Header, session string, ready func()) {
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(url, "http")+"/api/ws", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Error(err)
		ready()
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(-1)
	say := fmt.Sprintf(`{"type":"session:subscribe","sessionId":%q}`, session)
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(say)); err != nil {
		t.Error(err)
	}
	var f struct {
		Type   string
		Seq    int64
		Reason string
		Done   bool
	}
	for {
		_, data, err := conn.Read(context.Background())
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusGoingAway || f.Type != "session:end" || f.Reason != "server_shutdown" || f.Seq == 0 {
				t.Errorf("a WebSocket ends with %+v and %v", f, err)
			}
			return
		}
		f.Type, f.Reason, f.Done = "", "", false
		if err := json.Unmarshal(data, &f); err != nil {
			t.Error(err)
		}
		if f.Type == "session:history" && f.Done {
			ready()
		}
	}
}

// A request that the server abandons because it stops gets no answer. Without
// one, net/http would answer 200, and a program would take for done what was
// not.
func TestRequestThatAShutdownAbandonsIsNotAnsweredAsDone(t *testing.T) {
	home := t.TempDir()
	settings := filepath.Join(home, "config.yaml")
	started := filepath.Join(home, "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings, fmt.Appendf(nil, "agents:\n  silent:\n    protocol: acp\n    command: [sh, -c, %q]\n", "echo >"+started+"; exec sleep 600"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(home, "data")
	cmd := exec.Command("runnel", "serve", "--listen", "127.0.0.1:0", "--data", data, "--config", settings)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	url := ""
	for said := bufio.NewScanner(out); url == "" && said.Scan(); {
		if m := apiAt.FindStringSubmatch(said.Text()); m != nil {
			url = m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	token, err := exec.Command("runnel", "token", "create", "t", "--scope", "read,send", "--data", data).Output()
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		req, err := http.NewRequestWithContext(context.Background(), "POST", url+"/api/session/create", strings.NewReader(fmt.Sprintf(`{"cliType":"silent","projectDir":%q}`, t.TempDir())))
		if err != nil {
			answered <- "no request: " + err.Error()
			return
		}
		req.Header = http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(token))}, "Content-Type": {"application/json"}}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			answered <- ""
			return
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		answered <- fmt.Sprintf("%d %q", res.StatusCode, body)
	}()
	if _, err := os.ReadFile(started); err != nil { // the agent runs, and the request waits for it
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got != "" {
		t.Errorf("the answer to the abandoned request is %s", got)
	}
}
