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

// borrow runs a program that changes its user, as every user can with
// newuidmap, and reports what that was answered.
func borrow(args []string) {
	dir, helper := args[0], args[1]
	cmd := exec.Command(helper, "play-become", dir)
	cmd.Stderr = new(bytes.Buffer)
	out, err := cmd.Output()
	writeResult(filepath.Join(dir, "borrowed"), words(out, err))
}

// become is run as root. It becomes another user, of whose processes ours
// cannot see what they hold open, and sends the parcel in a directory.
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

// TestAgentsProcessOfAnotherUserCannotUseAToken lets an agent's tool become
// another user and call with a token that it found. Another user whom no agent
// started may use it.
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
