//go:build unix

package docs

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testprogram"
	"github.com/runnel-dev/runnel/supervise"
)

var update = flag.Bool("update", false, "write the answers of this run into the pages")

// waitTimeout is the maximum time of each wait for the server.
const waitTimeout = 90 * time.Second

func TestMain(m *testing.M) {
	supervise.Main()
	os.Exit(testprogram.Main(m))
}

// A reader acts as a person who follows a page. It has its own home, a project
// in it, and a server that knows only the scripted agent.
type reader struct {
	t    *testing.T
	home string
	env  []string
	api  string // address of the API
	said bytes.Buffer

	stop    func()          // stops the server; called at the end of the test
	streams []chan struct{} // one for each open stream, closed once the server has ended the stream
}

var (
	apiAt = regexp.MustCompile(`its API is at (http://\S+)`)
	link  = regexp.MustCompile(`http://\S+/#c=\S+`)
)

// newReader starts a server for a reader.
func newReader(t *testing.T) *reader {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
	}
	binary := testprogram.Path(t)
	r := &reader{t: t, home: t.TempDir()}
	for _, dir := range []string{"bin", "app"} {
		if err := os.Mkdir(filepath.Join(r.home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.env = []string{"HOME=" + r.home, "PATH=" + filepath.Join(r.home, "bin") + ":" + filepath.Dir(binary) + ":/usr/bin:/bin", "LC_ALL=C.UTF-8"}
	r.serve(binary)
	r.env = append(r.env, "API="+r.api)
	return r
}

// serve starts the server, which stops when the test ends.
func (r *reader) serve(binary string) {
	r.t.Helper()
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0")
	cmd.Env, cmd.Stderr = r.env, &r.said
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			r.t.Errorf("serve: %v\n%s", err, r.said.String())
		}
	})
	r.t.Cleanup(r.stop)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if m := apiAt.FindStringSubmatch(line); m != nil {
			r.api = m[1]
		}
		if link.MatchString(line) {
			break
		}
		if err != nil {
			r.t.Fatalf("the server does not start: %s", r.said.String())
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // ends with the server
}

// command runs a program in the environment of the reader and returns the first
// line of its output.
func (r *reader) command(name string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `exec "$0" "$@"`, name}, args...)...)
	cmd.Env = r.env
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// page returns the path of a page in docs/, and its text.
func page(t *testing.T, name string) (path, text string) {
	t.Helper()
	path = filepath.Join("../../docs", name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(data)
}

// save writes the page with the responses of this run if the tests run with
// -update.
func save(t *testing.T, path, old, text string) {
	t.Helper()
	if !*update || text == old {
		return
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// anonymous replaces values that differ between runs and machines by examples.
// Ids of each kind are numbered in the order in which they occur.
type anonymous struct {
	home, api string
	ids       map[string]string
	n         map[int]int // number of ids by kind
}

func newAnonymous(r *reader) *anonymous {
	return &anonymous{r.home, r.api, make(map[string]string), make(map[int]int)}
}

// idKinds are the fields whose ids are numbered separately, so that a new id of
// one kind does not change the others on the page.
var idKinds = map[string]int{"sessionId": 1, "turnId": 2, "agentSessionId": 3, "logId": 4, "uploadId": 5, "login": 6}

var (
	uuids    = regexp.MustCompile(`(?:"(\w+)": ?")?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})`)
	digests  = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	moments  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	days     = regexp.MustCompile(`(made by \w+ on )\d{4}-\d\d-\d\d`)
	secrets  = regexp.MustCompile(`rnl_[A-Za-z0-9_-]{43}`)
	origins  = regexp.MustCompile(`[a-z2-7]{26}\.localhost:\d+`)
	projects = regexp.MustCompile(`("projectId": ?)"[0-9a-f]{16}"`)
	versions = regexp.MustCompile(`("status": ?"ok", *"version": ?)"[^"]*"`)
)

// text returns s with the values replaced that differ between runs and
// machines.
func (a *anonymous) text(s string) string {
	s = strings.ReplaceAll(s, a.home, "/home/you")
	s = strings.ReplaceAll(s, strings.TrimPrefix(a.api, "http://"), "127.0.0.1:7317")
	s = uuids.ReplaceAllStringFunc(s, func(found string) string {
		m := uuids.FindStringSubmatch(found)
		kind, id := idKinds[m[1]], m[2]
		if a.ids[id] == "" {
			a.n[kind]++
			a.ids[id] = fmt.Sprintf("0192f0c1-7d5e-7c3a-9d0e-%d%011d", kind, a.n[kind])
		}
		return strings.Replace(found, id, a.ids[id], 1)
	})
	s = digests.ReplaceAllString(s, "3638a13e569b4e6377758b66ed02f187b7a54be715875e25f9ba2f4f3f6bcbfd")
	s = moments.ReplaceAllString(s, "2026-11-22T09:30:00.123456789Z")
	s = days.ReplaceAllString(s, "${1}2026-11-22")
	s = secrets.ReplaceAllString(s, "rnl_…")
	s = origins.ReplaceAllString(s, "abcdefghijklmnopqrstuvwxyz.localhost:7317")
	s = projects.ReplaceAllString(s, `$1"0af903985acc4526"`)
	return versions.ReplaceAllString(s, `$1"0.1.0"`)
}
