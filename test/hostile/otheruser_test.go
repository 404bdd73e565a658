//go:build linux

package hostile

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// borrow is the role of an agent's tool. It runs a helper that becomes another
// user, and reports what the helper printed. The helper stands for newuidmap,
// which lets every user do that.
func borrow(args []string) {
	dir, helper := args[0], args[1]
	cmd := exec.Command(helper, "play-become", dir)
	cmd.Stderr = new(bytes.Buffer)
	out, err := cmd.Output()
	writeResult(filepath.Join(dir, "borrowed"), words(out, err))
}

// become is the role of the helper, which starts as root. It becomes the user
// nobody and sends the parcel in a directory. The server cannot see which files
// the processes of that user have open.
func become(args []string) {
	var p parcel
	awaitOrders(filepath.Join(args[0], "parcel"), &p)
	for _, set := range []func(r, e, s int) error{syscall.Setresgid, syscall.Setresuid} {
		if err := set(int(nobody.Uid), int(nobody.Uid), int(nobody.Uid)); err != nil {
			panic(err)
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	sendRequest([]string{string(text)})
}

// TestAgentsProcessOfAnotherUserCannotUseAToken has an agent's tool become
// another user and send a request with a token that it found. The server must
// reject it. A process of that user that no agent started may use the token.
func TestAgentsProcessOfAnotherUserCannotUseAToken(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to be several users")
	}
	w := newWorld(t, stranger, "60s")
	w.start()
	helper := filepath.Join(filepath.Dir(program), "become")
	copyFile(t, w.agent(), helper)
	if err := os.Chmod(helper, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	token := w.runnel("token", "create", "found", "--scope", "read,send,approve,admin", "--data", w.data)
	me := parcel{Method: "GET", URL: "/api/me", Header: http.Header{"Authorization": {"Bearer " + token}}}
	if status, _, body := sendAs(t, nobody, w.Addr, "http://"+w.Addr, me); status != http.StatusOK {
		t.Errorf("another user, before there are agents: %d %s", status, body)
	}
	c := w.Watch(w.create())
	defer c.Leave()
	c.Send(plan{Deltas: 1, Ask: true, Tool: []string{w.agent(), "play-borrow", w.project, helper}}.prompt())
	me.URL = "http://" + w.Addr + me.URL
	w.give("parcel", me)
	var got string
	if w.file("borrowed", &got); got[:min(3, len(got))] != "403" {
		t.Errorf("an agent's process of another user got %q", got)
	}
	me.URL = "/api/me"
	if status, _, body := sendAs(t, nobody, w.Addr, "http://"+w.Addr, me); status != http.StatusOK {
		t.Errorf("another user, while there is an agent: %d %s", status, body)
	}
	w.killSessions()
}
