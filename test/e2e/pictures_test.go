//go:build unix

package e2e

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// An image of a prompt stays visible: during the session, after a crash, in a
// restored backup, and in a session that is read from the agent's own storage.
func TestImageOfPromptKeepsItsPicture(t *testing.T) {
	for _, name := range []string{"claude-code", "codex", "gemini", "qwen", "opencode"} {
		t.Run(name, func(t *testing.T) {
			if name == "qwen" || name == "opencode" {
				needsLong(t, "starts slowly; the recordings of its provider have pictures, too")
			}
			t.Parallel()
			s := serve(t, realagents.Find(t, name))
			img := image.NewRGBA(image.Rect(0, 0, 8, 8))
			img.Set(1, 1, color.White)
			var red bytes.Buffer
			if err := png.Encode(&red, img); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(s.home.Project, "red.png")
			if err := os.WriteFile(file, red.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			session := s.create()
			d := &sse{s, session, "0", make(map[string]string)}
			body := map[string]any{"sessionId": session, "message": play(fakemodel.Step{Text: "Seen."}), "attachments": []any{map[string]any{"path": file}}}
			res := s.do(t.Context(), "POST", "/api/harness/turn", body)
			if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(res.StatusCode, err)
			}
			res.Body.Close()
			live := s.pictureOf(session, red.Bytes())
			if got := d.turn(play(fakemodel.Step{Text: "Second."}), ignore); got.Status != "completed" {
				t.Fatalf("%+v", got)
			}
			s.crash()
			s.launch()
			if again := s.pictureOf(session, red.Bytes()); again != live {
				t.Errorf("after a crash: %+v, want %+v", again, live)
			}

			backup, restored := filepath.Join(t.TempDir(), "b.tar"), *s
			restored.data = filepath.Join(t.TempDir(), "restored")
			s.run("backup", backup, "--data", s.data)
			s.run("restore", backup, "--data", restored.data)
			restored.start(s.binary())
			if got := restored.pictureOf(session, red.Bytes()); got != live {
				t.Errorf("in the backup: %+v, want %+v", got, live)
			}
			restored.stop()

			var st gateway.Status
			s.call("GET", "/api/session/"+session+"/status", nil, &st)
			var gone gateway.Deletion
			if code := s.call("DELETE", "/api/session/"+session, nil, &gone); code != http.StatusOK || gone.Pictures != 1 {
				t.Fatalf("deletion: %d %+v", code, gone)
			}
			if left, err := os.ReadDir(filepath.Join(s.data, gateway.PicturesFolder, "sessions")); err != nil || len(left) != 0 {
				t.Errorf("left: %v, %v", left, err)
			}
			if name == "qwen" { // it stores only the text of prompts
				return
			}
			if copied := s.pictureOf(s.load(name+":"+st.AgentSessionID), red.Bytes()); copied.Picture != live.Picture || copied.Size != live.Size {
				t.Errorf("from the agent's own storage: %+v, want %+v", copied, live)
			}
		})
	}
}

// run runs a command of the program under test.
func (s *server) run(args ...string) {
	s.t.Helper()
	cmd := exec.Command(s.binary(), args...)
	cmd.Env = s.env
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

func (s *server) binary() string {
	s.t.Helper()
	binary, err := build()
	if err != nil {
		s.t.Fatal(err)
	}
	return binary
}

// pictureOf returns the attachment of a session's only prompt with an image. The
// server must return the image.
func (s *server) pictureOf(session string, want []byte) event.Attachment {
	s.t.Helper()
	for _, u := range s.items(session) {
		if u.Message == nil {
			continue
		}
		i := slices.IndexFunc(u.Message.Attachments, func(a event.Attachment) bool { return a.Picture != "" })
		if i < 0 {
			continue
		}
		res := s.do(s.t.Context(), "GET", "/api/session/"+session+"/pictures/"+u.Message.Attachments[i].Picture, nil)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || !bytes.Equal(data, want) {
			s.t.Errorf("picture: %d, %d bytes, %v", res.StatusCode, len(data), err)
		}
		return u.Message.Attachments[i]
	}
	s.t.Error("no prompt has a picture")
	return event.Attachment{}
}
