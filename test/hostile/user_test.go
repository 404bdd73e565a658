//go:build linux

package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A parcel is a request that a process of another user sends.
type parcel struct {
	Method string      `json:"method"`
	URL    string      `json:"url"`
	Host   string      `json:"host"`
	Header http.Header `json:"header"`
	Body   string      `json:"body"`
}

// sendRequest is the role of that process. It sends the parcel in its argument
// and prints the status, cookie and body of the response.
func sendRequest(args []string) {
	var p parcel
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		panic(err)
	}
	req, err := http.NewRequest(p.Method, p.URL, strings.NewReader(p.Body))
	if err != nil {
		panic(err)
	}
	req.Host, req.Header = p.Host, p.Header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	cookie := ""
	for _, c := range res.Cookies() {
		cookie = c.Value
	}
	fmt.Printf("%d\n%s\n%s", res.StatusCode, cookie, body)
}

// nobody is an ordinary user, other than the user stranger.
var nobody = &syscall.Credential{Uid: 65534, Gid: 65534}

// sendAs has a process of a user send a request with the headers of the page.
// It returns the status, cookie and body of the response.
func sendAs(t *testing.T, user *syscall.Credential, addr, origin string, p parcel) (status int, cookie, body string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sender := filepath.Join(filepath.Dir(program), "sender")
	if _, err := os.Stat(sender); err != nil {
		copyFile(t, self, sender)
	}
	_, p.Host, _ = strings.Cut(origin, "://")
	p.URL = "http://" + addr + p.URL
	if p.Header == nil {
		p.Header = http.Header{}
	}
	p.Header.Set("Origin", origin)
	p.Header.Set("Sec-Fetch-Site", "same-origin")
	if p.Body != "" {
		p.Header.Set("Content-Type", "application/json")
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(sender, "play-send", string(text))
	cmd.Dir, cmd.Env, cmd.Stderr = "/", []string{"PATH=/usr/bin"}, new(bytes.Buffer)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	out, err := cmd.Output()
	parts := strings.SplitN(string(out), "\n", 3)
	if err != nil || len(parts) != 3 {
		t.Fatalf("%v: %q %s", err, out, cmd.Stderr)
	}
	_, _ = fmt.Sscan(parts[0], &status)
	return status, parts[1], parts[2]
}

// TestOtherUserCannotUseABrowsersLogin checks that another user cannot use a
// browser's credential or a login link. A program of that user that listened on
// our port while the server was down may have received them.
func TestOtherUserCannotUseABrowsersLogin(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to be several users")
	}
	w := newWorld(t, stranger, "1s")
	w.start()
	origin, code := w.pageAndCode()
	login := parcel{Method: "POST", URL: "/api/login", Body: `{"code":"` + code + `"}`}
	if status, _, body := sendAs(t, nobody, w.Addr, origin, login); status != http.StatusForbidden || !strings.Contains(body, "another user") {
		t.Errorf("another user logs in with a link that it saw: %d %s", status, body)
	}
	status, cookie, body := sendAs(t, stranger, w.Addr, origin, login)
	var half struct{ Key string }
	if err := json.Unmarshal([]byte(body), &half); err != nil || status != http.StatusOK {
		t.Fatalf("the user logs in: %d %s", status, body)
	}
	me := parcel{Method: "GET", URL: "/api/me", Header: http.Header{"Cookie": {"runnel_session=" + cookie}, "Runnel-Key": {half.Key}}}
	for user, want := range map[*syscall.Credential]int{stranger: http.StatusOK, nobody: http.StatusForbidden} {
		if status, _, body := sendAs(t, user, w.Addr, origin, me); status != want {
			t.Errorf("uid %d with the credential of a browser: %d %s, want %d", user.Uid, status, body, want)
		}
	}
	if !w.says("refused a browser of another user", 1) {
		t.Errorf("the log lacks it:\n%s", w.stderr)
	}

	w.stop() // a proxy on this machine usually runs as another user
	w.flags = []string{"--proxied"}
	w.start()
	if status, _, body := sendAs(t, nobody, w.Addr, origin, me); status != http.StatusOK {
		t.Errorf("through a proxy: %d %s", status, body)
	}
}
