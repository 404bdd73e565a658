package main

import (
	"strings"
	"testing"
)

// On a terminal, 'sessions delete' says what it frees and deletes only after
// the word yes.
func TestDeleteAsksAtATerminal(t *testing.T) {
	n := newNewcomer(t)
	n.serve(t)
	seen, code := n.run(t, `curl --fail --silent --unix-socket ~/.local/share/runnel/api.sock --json '{"cliType":"script","projectDir":"`+n.home+`/work"}' http://localhost/api/session/create`)
	_, rest, _ := strings.Cut(seen, `"sessionId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if code != exitOK || len(id) != 36 {
		t.Fatalf("exit %d:\n%s", code, seen)
	}
	for _, tt := range []struct{ typed, want string }{{"y\n", "Nothing was deleted."}, {"\x04", "Nothing was deleted."}, {"yes\n", "Deleted " + id}} {
		tm := newTerminal(t, 200)
		cmd := n.command(t, "runnel sessions delete "+id)
		tm.begin(t, cmd)
		tm.await(t, "Type yes to delete: ", 1)
		tm.typeIn(t, tt.typed)
		if code := tm.rest(t, cmd); code != exitOK || !strings.Contains(tm.seen.String(), tt.want) || !strings.Contains(tm.seen.String(), "It frees about ") {
			t.Errorf("%q: exit %d:\n%s", tt.typed, code, tm.seen.String())
		}
	}
	if seen, code := n.run(t, "runnel sessions show "+id); code == exitOK {
		t.Errorf("still there:\n%s", seen)
	}
}
