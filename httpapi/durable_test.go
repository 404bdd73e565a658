package httpapi

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// onDisk makes a rig store everything in dir.
func onDisk(t *testing.T, dir string) (func(*Config, *gateway.Config), *sqlite.Store) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config, g *gateway.Config) {
		c.Keyring = auth.NewKeyring(st)
		g.Log, g.Catalogue, g.DataDir = st, st, dir
	}, st
}

// No credential is in a file of the data directory, in the log, in the
// arguments, in the environment or in an answer of the server.
func TestNoSecretOnDiskOrInLogs(t *testing.T) {
	timed(t, minute)
	dir := filepath.Join(t.TempDir(), "data")
	edit, st := onDisk(t, dir)
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	func() {
		rg := newRig(t, edit)
		code, err := rg.keyed.LoginCode(t.Context(), auth.All())
		if err != nil {
			t.Fatal(err)
		}
		w := rg.do("POST", "/api/login", `{"code":"`+code+`"}`, anonymous, header("Origin", "http://own.localhost:7777"))
		var half loginAnswer
		if err := json.Unmarshal(w.Body.Bytes(), &half); w.Code != 200 || err != nil || half.Key == "" {
			t.Fatalf("login: %d %s", w.Code, w.Body)
		}
		cookie := w.Result().Cookies()[0].Value
		made := call[tokenAnswer](rg, "POST", "/api/tokens", `{"name":"ci","scopes":["read","send"]}`, 201)
		id := rg.create()
		rg.prompt(id, "text")
		for range 12 { // and some rejected requests
			rg.do("GET", "/api/me?token="+made.Token, "", header("Authorization", "Bearer "+made.Token+"x"))
		}
		rg.do("POST", "/api/login", `{"code":"`+code+`"}`, anonymous)
		secrets := map[string]string{"token": rg.token, "code": code, "cookie": cookie, "key": half.Key, "made": made.Token}
		if list := call[tokensAnswer](rg, "GET", "/api/tokens", "", 200); len(list.Tokens) != 3 {
			t.Errorf("%d credentials", len(list.Tokens))
		}
		search := func(where string, data []byte) {
			for name, secret := range secrets {
				if bytes.Contains(data, []byte(secret[4:24])) {
					t.Errorf("the %s is in %s", name, where)
				}
			}
		}
		files := 0
		err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			files++
			data, err := os.ReadFile(p)
			search(p, data)
			return err
		})
		if err != nil || files == 0 {
			t.Fatalf("%d files, %v", files, err)
		}
		search("the log", rg.logged.Bytes())
		search("the arguments", []byte(strings.Join(os.Args, "\n")))
		search("the environment", []byte(strings.Join(os.Environ(), "\n")))
		for _, target := range []string{"/metrics", "/openapi.json", "/api/tokens", "/api/me", "/docs"} {
			search(target, rg.do("GET", target, "").Body.Bytes())
		}
	}()
}

// A restarted server returns what the previous one had shown, and its clients
// resume at their positions.
func TestRestartOverSQLite(t *testing.T) {
	timed(t, minute)
	dir := filepath.Join(t.TempDir(), "data")
	var id, token, turn string
	var before []event.Event
	project := t.TempDir()
	t.Run("before", func(t *testing.T) {
		edit, st := onDisk(t, dir)
		t.Cleanup(func() { _ = st.Close() })
		s := serve(t, edit)
		s.dir, token = project, s.token
		id = s.create()
		p := s.join(stream.FamilyEvents)
		p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
		turn = s.prompt(id, burst(60))
		for done := false; !done; {
			f := p.await("session:history", "session:event")
			evs := decodeEvents(t, f.Entries)
			if f.Type == "session:event" {
				evs = append(evs, decodeEvents(t, []json.RawMessage{f.Payload})...)
			}
			before = append(before, evs...)
			done = len(before) > 0 && event.Ends(before[len(before)-1].Body)
		}
	})
	t.Run("after", func(t *testing.T) {
		edit, st := onDisk(t, dir)
		t.Cleanup(func() { _ = st.Close() })
		s := serve(t, edit)
		s.dir, s.token = project, token
		got, _ := s.readSSE(id, 0, before[len(before)-1].Seq)
		sameLog(t, got, before)
		st1 := call[gateway.Status](s.rig, "GET", "/api/session/"+id+"/status", "", 200)
		if st1.IsAlive || st1.Title == "" || st1.LastSeq < before[len(before)-1].Seq || st1.AgentSessionID == "" {
			t.Errorf("status %+v", st1)
		}
		next := s.prompt(id, "text")
		var end event.Event
		for ev, err := range runnel.Follow(t.Context(), s.gw.Log(), id, before[len(before)-1].Seq) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Turn == turn {
				t.Errorf("an event of the turn that was over: %d", ev.Seq)
			}
			if ev.Turn == next && event.Ends(ev.Body) {
				end = ev
				break
			}
		}
		if done, ok := end.Body.(event.ResponseDone); !ok || done.Status != event.StatusCompleted {
			t.Errorf("ended %+v", end.Body)
		}
	})
}
