package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/provider/all"
)

// newcomer is a user who has just built runnel. The home directory is empty and
// PATH contains no agent.
type newcomer struct {
	home string
	env  []string
}

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	runnel, err := exec.LookPath("runnel")
	if err != nil {
		t.Fatal(err)
	}
	n := &newcomer{home: t.TempDir()}
	n.env = []string{
		"HOME=" + n.home, "PATH=" + n.home + "/bin:" + filepath.Dir(runnel) + ":/usr/bin:/bin", "NO_COLOR=1",
		"RUNNEL_LISTEN=127.0.0.1:0", "GORACE=" + os.Getenv("GORACE"),
	}
	for _, dir := range []string{"bin", "src/app", "backups", "work"} {
		if err := os.MkdirAll(filepath.Join(n.home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (n *newcomer) command(t *testing.T, line string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+line)
	cmd.Dir, cmd.Env = filepath.Join(n.home, "work"), n.env
	return cmd
}

// run runs a command line at a terminal. It returns the screen and the exit
// code.
func (n *newcomer) run(t *testing.T, line string) (string, int) {
	t.Helper()
	tm := newTerminal(t, 120)
	cmd := n.command(t, line)
	tm.begin(t, cmd)
	code := tm.rest(t, cmd)
	return tm.seen.String(), code
}

// page returns a document of the repository.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	comment   = regexp.MustCompile(` {2,}#.*$`)
	sessionID = regexp.MustCompile(`\bID\b`)
	agentRow  = regexp.MustCompile("(?m)^\\| .*\\| `(npm install -g [^`]+)` \\|.*\\| `(runnel run [^`]+)` \\|$")
)

// indented returns the lines of the README's code blocks that begin with
// prefix.
func indented(t *testing.T, prefix string) (lines []string) {
	t.Helper()
	for line := range strings.Lines(page(t, "README.md")) {
		if line = comment.ReplaceAllString(strings.TrimRight(line, "\n"), ""); strings.HasPrefix(line, "    "+prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// The README's command for a first look succeeds as printed, without an
// installed agent.
func TestReadmeFirstLook(t *testing.T) {
	testload.TakesLong(t)
	n := newNewcomer(t)
	firsts := indented(t, "bin/runnel run ")
	if len(firsts) != 1 {
		t.Fatalf("%d first looks in the README", len(firsts))
	}
	seen, code := n.run(t, strings.TrimPrefix(firsts[0], "bin/"))
	if code != exitOK || !strings.Contains(seen, "The tests pass.") {
		t.Errorf("exit %d:\n%s", code, seen)
	}
	if !strings.Contains(page(t, "README.md"), "| the scripted agent | built in | | `"+strings.TrimPrefix(firsts[0], "bin/")+"` |") {
		t.Error("the table of agents has another command for the scripted agent")
	}
}

// Each command in the README's table of agents fails for a user without the
// agent, and prints the table's instructions for its installation.
func TestReadmeAgentsSayHowToInstallThem(t *testing.T) {
	n := newNewcomer(t)
	rows := agentRow.FindAllStringSubmatch(page(t, "README.md"), -1)
	if len(rows) < 6 {
		t.Fatalf("%d agents in the README", len(rows))
	}
	for _, row := range rows {
		seen, code := n.run(t, row[2])
		if seen = strings.Join(strings.Fields(seen), " "); code != exitFailed || !strings.Contains(seen, row[1]) {
			t.Errorf("%s: exit %d without %q:\n%s", row[2], code, row[1], seen)
		}
	}
}

// Every command in the README's list succeeds as printed, in this order, if the
// agent that the README adds is installed.
func TestReadmeCommandLine(t *testing.T) {
	testload.TakesLong(t)
	n := newNewcomer(t)
	buildAgent(t, filepath.Join(n.home, "bin"))
	writeFile(t, filepath.Join(n.home, ".config", "runnel", "config.yaml"), []byte(snippet(t)))
	if seen, code := n.run(t, `sh -c "git init -q && git -c user.name=me -c user.email=me@localhost commit -q --allow-empty -m start"`); code != exitOK {
		t.Fatalf("exit %d:\n%s", code, seen)
	}
	lines := indented(t, "runnel ")
	if len(lines) < 10 {
		t.Fatalf("%d commands in the README", len(lines))
	}
	for _, line := range lines {
		if line == "runnel serve" {
			n.serve(t)
			continue
		}
		agent, want := "mine", exitOK
		if strings.Contains(line, "ID=VALUE") { // the small agent has no settings
			agent, want = "script", exitNotDone
		}
		line = strings.NewReplacer("/backups/", n.home+"/backups/", "ID=VALUE", "pace=fast").Replace(line)
		if sessionID.MatchString(line) {
			options := ""
			if strings.Contains(line, "worktree") {
				options = `"worktree":true`
			}
			line = sessionID.ReplaceAllString(line, n.create(t, options))
		}
		if seen, code := n.run(t, "env RUNNEL_AGENT="+agent+" "+line); code != want {
			t.Errorf("%s: exit %d, want %d:\n%s", line, code, want, seen)
		}
	}
	for _, line := range indented(t, "curl ") {
		if seen, code := n.run(t, line+" --fail --silent"); code != exitOK || !strings.Contains(seen, `"cliType":"mine"`) {
			t.Errorf("%s: exit %d:\n%s", line, code, seen)
		}
	}
}

// create creates a session of the server and returns its id.
func (n *newcomer) create(t *testing.T, options string) string {
	t.Helper()
	seen, code := n.run(t, `curl --fail --silent --unix-socket ~/.local/share/runnel/api.sock --json '{"cliType":"mine","projectDir":"`+n.home+`/work","options":{`+options+`}}' http://localhost/api/session/create`)
	var made struct {
		SessionID string `json:"sessionId"`
	}
	if err := json.Unmarshal([]byte(seen), &made); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v:\n%s", code, err, seen)
	}
	return made.SessionID
}

// serve starts a server that runs until the test ends.
func (n *newcomer) serve(t *testing.T) {
	t.Helper()
	cmd := n.command(t, "runnel serve")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if link.MatchString(lines.Text()) {
			return
		}
	}
	t.Fatal("the server did not start")
}

// runnel accepts every piece of configuration in the documents.
func TestConfigurationOfTheDocuments(t *testing.T) {
	yaml := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	n := 0
	for _, name := range []string{"README.md", "docs/configuration.md"} {
		for _, m := range yaml.FindAllStringSubmatch(page(t, name), -1) {
			n++
			path := filepath.Join(t.TempDir(), "config.yaml")
			writeFile(t, path, []byte(m[1]))
			fl := pflag.NewFlagSet("", pflag.ContinueOnError)
			serveFlags(fl)
			if err := fl.Set("config", path); err != nil {
				t.Fatal(err)
			}
			c, err := loadConfig(fl)
			if err == nil {
				err = (&app{providers: all.Providers()}).useAgents(c.file, c.agents)
			}
			if err != nil {
				t.Errorf("%s: %v:\n%s", name, err, m[1])
			}
		}
	}
	if n < 4 {
		t.Errorf("%d pieces of configuration found", n)
	}
}
