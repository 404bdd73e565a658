//go:build unix

package docs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// A step of a page is a block of shell commands. Most steps are followed by the
// response: its status, a paragraph that names the values to keep, and the
// body.
var step = regexp.MustCompile("(?s)```sh\n(.*?)```(?:\n\n`(\\d{3})`((?:[^\n]+\n?)*?)\n\n```(json|text)\n(.*?)```)?")

// kept matches the path of a value in a response, and the variable that stores
// the value for later commands.
var kept = regexp.MustCompile("`(\\.[^`]*)` as `([A-Z_]+)`")

// Runs the commands of the page in order. Each must give the response that the
// page shows, and every operation of the API must have a command.
func TestCommandsOfAPIPage(t *testing.T) {
	r := newReader(t)
	sh := newShell(r)
	path, old := page(t, "api.md")
	text, n := step.ReplaceAllStringFunc(old, func(found string) string {
		return sh.step(step.FindStringSubmatch(found), found)
	}), len(step.FindAllString(old, -1))
	save(t, path, old, text)
	if n < 30 {
		t.Errorf("%d steps found", n)
	}
	if t.Failed() {
		return // some commands may not have run
	}
	asked := sh.requests()
	for _, op := range operations(t, r.api) {
		if !slices.ContainsFunc(asked, op.matches) {
			t.Errorf("no command asks %s %s", op.method, op.path)
		}
	}
}

// The table of errors on the page must be the one that the server uses.
func TestErrorsOfAPIPage(t *testing.T) {
	_, text := page(t, "api.md")
	row := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (\\d+) \\| [^|]+ \\|$")
	got := make(map[string]int)
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		got[m[1]], _ = strconv.Atoi(m[2])
	}
	want := make(map[string]int)
	for code, status := range reply.Statuses() {
		want[fmt.Sprint(code)] = status[0]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// shell runs the steps of a page, which share variables.
type shell struct {
	*reader
	anon *anonymous
	dir  string // where the curl wrapper records arguments and response headers
}

// wrapper is the curl in the PATH of the shell. It records its arguments and
// the header of the response.
const wrapper = `#!/bin/sh
{ printf '%%s\0' "$@"; printf '\036'; } >>%[1]s/requests
exec %[2]s -D %[1]s/head "$@"
`

func newShell(r *reader) *shell {
	r.t.Helper()
	sh := &shell{r, newAnonymous(r), r.t.TempDir()}
	curl, err := exec.LookPath("curl")
	if err != nil {
		r.t.Fatal(err)
	}
	script := fmt.Sprintf(wrapper, sh.dir, curl)
	if err := testexec.Write(filepath.Join(r.home, "bin", "curl"), script); err != nil {
		r.t.Fatal(err)
	}
	return sh
}

// step runs one step, whose parts are m. It returns the text of the step with
// the response of this run.
func (s *shell) step(m []string, text string) string {
	s.t.Helper()
	commands, status, about, form, want := m[1], m[2], m[3], m[4], m[5]
	if s.t.Failed() && !*update {
		return text // later steps rely on the failed one
	}
	out := s.run(commands, want)
	if status == "" {
		return text
	}
	got := pretty(out)
	for _, k := range kept.FindAllStringSubmatch(about, -1) {
		s.env = append(s.env, k[2]+"="+s.find(out, k[1]))
	}
	head := s.status()
	got = s.anon.text(got)
	if head == status && same(want, got) {
		return text
	}
	if !*update || head != status {
		s.t.Errorf("%sanswers %s\n%s\nthe page says %s\n%s", commands, head, got, status, want)
	}
	return "```sh\n" + commands + "```\n\n`" + head + "`" + about + "\n\n```" + form + "\n" + got + "```"
}

// run runs commands in a shell and keeps the variables that they set. It stops
// a command that reads a stream after the last frame that the page shows.
func (s *shell) run(commands, want string) string {
	s.t.Helper()
	ctx, done := context.WithTimeout(s.t.Context(), waitTimeout)
	defer done()
	vars := filepath.Join(s.dir, "vars")
	cmd := exec.CommandContext(ctx, "bash", "-euc", "set -a\n"+commands+"env -0 >"+vars)
	cmd.Dir, cmd.Env = filepath.Join(s.home, "app"), s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stderr = &said
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	out, cut := readUntil(pipe, lastEvent(commands, want))
	if cut {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
	}
	if err := cmd.Wait(); !cut && err != nil {
		s.t.Errorf("%s%v\n%s%s", commands, err, out, said.String())
	}
	if data, err := os.ReadFile(vars); err == nil && !cut {
		s.env = nil
		for v := range strings.SplitSeq(string(data), "\x00") {
			if name, _, ok := strings.Cut(v, "="); ok && name != "_" && name != "SHLVL" {
				s.env = append(s.env, v)
			}
		}
	}
	return out
}

// A mark is the last frame to read of a stream: the nth frame with a name.
type mark struct {
	name string
	n    int
}

// lastEvent returns the last frame in the example of a stream; a zero mark if
// the commands read no stream.
func lastEvent(commands, example string) (m mark) {
	names := regexp.MustCompile(`(?m)^event: (\S+)$`).FindAllStringSubmatch(example, -1)
	if !strings.Contains(commands, "curl -sSN") || len(names) == 0 {
		return m
	}
	m.name = names[len(names)-1][1]
	for _, name := range names {
		if name[1] == m.name {
			m.n++
		}
	}
	return m
}

// readUntil reads up to the data of the frame last, or to the end.
func readUntil(r io.Reader, last mark) (out string, cut bool) {
	var b strings.Builder
	lines := bufio.NewReader(r)
	for n := 0; ; {
		line, err := lines.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return b.String(), false
		}
		if line == "event: "+last.name+"\n" {
			n++
		}
		if last.n > 0 && n == last.n && strings.HasPrefix(line, "data: ") {
			return b.String(), true
		}
	}
}

// status returns the status of the last response.
func (s *shell) status() string {
	s.t.Helper()
	head, err := os.ReadFile(filepath.Join(s.dir, "head"))
	if err != nil {
		s.t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^HTTP/\S+ (\d{3})`).FindAllStringSubmatch(string(head), -1)
	if len(m) == 0 {
		return ""
	}
	return m[len(m)-1][1]
}

// find returns the value at a path such as .approvals[0].id. In a stream it
// reads the last frame.
func (s *shell) find(answer, path string) string {
	s.t.Helper()
	if at := strings.LastIndex(answer, "data: "); at >= 0 {
		answer = answer[at+len("data: "):]
	}
	cmd := exec.Command("jq", "-re", path)
	cmd.Stdin = strings.NewReader(answer)
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s: no value in %s", path, answer)
	}
	return strings.TrimSpace(string(out))
}

// A request is a request that a command sent.
type request struct{ method, path string }

// requests returns the requests of all commands so far.
func (s *shell) requests() (out []request) {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "requests"))
	if err != nil {
		s.t.Fatal(err)
	}
	for one := range strings.SplitSeq(string(data), "\x1e") {
		q := request{method: http.MethodGet}
		args := strings.Split(one, "\x00")
		for i, arg := range args {
			switch {
			case arg == "-X":
				q.method = args[i+1]
			case arg == "--json" || arg == "--data-binary":
				q.method = http.MethodPost
			case strings.HasPrefix(arg, "http://"):
				_, rest, _ := strings.Cut(strings.TrimPrefix(arg, "http://"), "/")
				q.path, _, _ = strings.Cut("/"+rest, "?")
			}
		}
		out = append(out, q)
	}
	return out
}

// An operation is an operation of the OpenAPI document.
type operation struct {
	method, path string
	form         *regexp.Regexp
}

func (op operation) matches(q request) bool {
	return op.method == q.method && op.form.MatchString(q.path)
}

func operations(t *testing.T, api string) (out []operation) {
	t.Helper()
	res, err := http.Get(api + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	parameter := regexp.MustCompile(`\\\{[^/]*\\\}`)
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		form := regexp.MustCompile("^" + parameter.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
		for method, op := range doc.Paths[path] {
			if op.OperationID != "" {
				out = append(out, operation{strings.ToUpper(method), path, form})
			}
		}
	}
	if len(out) < 30 {
		t.Fatalf("%d operations in the document", len(out))
	}
	return out
}
