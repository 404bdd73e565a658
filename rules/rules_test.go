package rules

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

func call(dir, tool string, args any) Call {
	raw, _ := json.Marshal(args)
	return Call{CLIType: "some", Dir: dir, Approval: event.Approval{ID: "a", Kind: event.ApprovalTool, ToolName: tool, Arguments: raw, ArgumentsDigest: digest(raw)}}
}

// connection returns the question about a host that a sandbox reaches for.
func connection(dir, host string, port int) Call {
	return call(dir, event.ToolConnect, args{"host": host, "port": port})
}

type args map[string]any

func allow(kind store.RuleKind, pattern string) store.Rule {
	return store.Rule{ID: 1, Effect: store.EffectAllow, Kind: kind, Pattern: pattern}
}

func deny(kind store.RuleKind, pattern string) store.Rule {
	r := allow(kind, pattern)
	r.Effect = store.EffectDeny
	return r
}

func TestAllowRulesMatchOnlyWhatTheyUnderstand(t *testing.T) {
	dir := realDir(t)
	status := allow(store.RuleExecute, "git status")
	inDir := status
	inDir.ProjectDir = dir
	ofBash := status
	ofBash.Tool = "Bash"
	ofOther := status
	ofOther.CLIType = "other"
	mcp := store.Rule{Effect: store.EffectAllow, Kind: store.RuleTool, Tool: "mcp__t__add"}
	for _, tc := range []struct {
		name string
		rule store.Rule
		call Call
		want bool
	}{
		{"the command", status, call(dir, "Bash", args{"command": "git status"}), true},
		{"with a description", status, call(dir, "Bash", args{"command": "git status", "description": "x", "timeout": 5, "run_in_background": true}), true},
		{"as a shell's script", status, call(dir, "shell", args{"command": "/bin/bash -lc 'git status'", "cwd": dir}), true},
		{"with a second command", status, call(dir, "Bash", args{"command": "git status; rm -rf ~"}), false},
		{"with a second command in a shell's script", status, call(dir, "shell", args{"command": "/bin/bash -lc 'git status; rm -rf ~'"}), false},
		{"outside of the sandbox", status, call(dir, "Bash", args{"command": "git status", "dangerouslyDisableSandbox": true}), false},
		{"not outside of the sandbox", status, call(dir, "Bash", args{"command": "git status", "dangerouslyDisableSandbox": false}), true},
		{"with more permissions", status, call(dir, "shell", args{"command": "git status", "additionalPermissions": args{"network": true}}), false},
		{"edits of a file", allow(store.RuleEdit, dir), call(dir, "apply_patch", args{"changes": []args{{"path": dir + "/a"}}}), true},
		{"edits of a file and of a folder from now on", allow(store.RuleEdit, dir), call(dir, "apply_patch", args{"changes": []args{{"path": dir + "/a"}}, "grantRoot": "/"}), false},
		{"with input for a running command", status, call(dir, "shell", args{"command": "git status", "kind": "writeStdin"}), false},
		{"the same list of commands", status, call(dir, "bash", args{"command": "git status", "commands": []string{"git status"}}), true},
		{"another list of commands", status, call(dir, "bash", args{"command": "git status", "commands": []string{"rm x"}}), false},
		{"a tool of an MCP server", status, call(dir, "mcp__x__bash", args{"command": "git status"}), false},
		{"an unknown tool", status, call(dir, "Terminal", args{"command": "git status"}), false},
		{"a command that is no text", status, call(dir, "Bash", args{"command": []string{"git", "status"}}), false},
		{"no command", status, call(dir, "Bash", args{}), false},
		{"in the project", inDir, call(dir, "Bash", args{"command": "git status"}), true},
		{"in a folder below the project", inDir, call(filepath.Join(dir, "sub"), "Bash", args{"command": "git status"}), true},
		{"in another project", inDir, call(filepath.Dir(dir), "Bash", args{"command": "git status"}), false},
		{"in a project with a longer name", inDir, call(dir+"2", "Bash", args{"command": "git status"}), false},
		{"run in another folder", inDir, call(dir, "shell", args{"command": "git status", "cwd": "/"}), false},
		{"run in a folder of the project", inDir, call(dir, "shell", args{"command": "git status", "cwd": "sub"}), true},
		{"run in two folders", inDir, call(dir, "shell", args{"command": "git status", "workdir": "/", "dir_path": dir}), false},
		{"run in one folder by two names", inDir, call(dir, "shell", args{"command": "git status", "workdir": dir, "dir_path": dir}), true},
		{"run above the project", inDir, call(dir, "shell", args{"command": "git status", "workdir": ".."}), false},
		{"the tool", ofBash, call(dir, "Bash", args{"command": "git status"}), true},
		{"another tool", ofBash, call(dir, "shell", args{"command": "git status"}), false},
		{"another agent", ofOther, call(dir, "Bash", args{"command": "git status"}), false},
		{"the MCP tool", mcp, call(dir, "mcp__t__add", args{"a": 1}), true},
		{"another MCP tool", mcp, call(dir, "mcp__t__adder", args{"a": 1}), false},
		{"the host", allow(store.RuleFetch, "example.com"), call(dir, "WebFetch", args{"url": "https://example.com/x?y", "prompt": "p"}), true},
		{"the host in capitals", allow(store.RuleFetch, "example.com"), call(dir, "WebFetch", args{"url": "HTTPS://EXAMPLE.com:443/"}), true},
		{"a host below", allow(store.RuleFetch, "*.example.com"), call(dir, "WebFetch", args{"url": "https://a.b.example.com/"}), true},
		{"a host with a longer name", allow(store.RuleFetch, "example.com"), call(dir, "WebFetch", args{"url": "https://example.com.evil/"}), false},
		{"a host that ends alike", allow(store.RuleFetch, "*.example.com"), call(dir, "WebFetch", args{"url": "https://evilexample.com/"}), false},
		{"a user named like the host", allow(store.RuleFetch, "example.com"), call(dir, "WebFetch", args{"url": "https://example.com@evil/"}), false},
		{"a backslash", allow(store.RuleFetch, "example.com"), call(dir, "WebFetch", args{"url": `https://evil\@example.com/`}), false},
		{"another port", allow(store.RuleFetch, "example.com"), call(dir, "WebFetch", args{"url": "https://example.com:8443/"}), false},
		{"the host of a connection", allow(store.RuleConnect, "example.com:8443"), connection(dir, "example.com", 8443), true},
		{"a connection to the port of TLS", allow(store.RuleConnect, "example.com"), connection(dir, "example.com", 443), true},
		{"a connection to the port of HTTP", allow(store.RuleConnect, "example.com"), connection(dir, "example.com", 80), true},
		{"a connection to another port", allow(store.RuleConnect, "example.com"), connection(dir, "example.com", 22), false},
		{"a connection to a port that the rule does not have", allow(store.RuleConnect, "example.com:8443"), connection(dir, "example.com", 443), false},
		{"a connection to a host below", allow(store.RuleConnect, "*.example.com:443"), connection(dir, "a.b.example.com", 443), true},
		{"a connection to the domain itself", allow(store.RuleConnect, "*.example.com"), connection(dir, "example.com", 443), false},
		{"a connection to a host that ends alike", allow(store.RuleConnect, "*.example.com"), connection(dir, "evilexample.com", 443), false},
		{"a connection to an address", allow(store.RuleConnect, "93.184.216.34"), connection(dir, "93.184.216.34", 443), true},
		{"a connection for a rule about requests", allow(store.RuleFetch, "example.com"), connection(dir, "example.com", 443), false},
		{"a request for a rule about connections", allow(store.RuleConnect, "example.com"), call(dir, "WebFetch", args{"url": "https://example.com/"}), false},
		{"a connection for a rule about the tool", store.Rule{Effect: store.EffectAllow, Kind: store.RuleTool, Tool: "connect"}, connection(dir, "example.com", 443), false},
		{"an agent's own tool with the name connect", allow(store.RuleConnect, "example.com"), call(dir, event.ToolAgentConnect, args{"host": "example.com", "port": 443}), false},
		{"a connection with more arguments", allow(store.RuleConnect, "example.com"), call(dir, "connect", args{"host": "example.com", "port": 443, "command": "rm"}), false},
		{"a connection to a port as text", allow(store.RuleConnect, "example.com"), call(dir, "connect", args{"host": "example.com", "port": "443"}), false},
		{"a connection to a host with a port in it", allow(store.RuleConnect, "example.com"), call(dir, "connect", args{"host": "example.com:443", "port": 443}), false},
		{"another scheme", allow(store.RuleFetch, "example.com"), call(dir, "WebFetch", args{"url": "file://example.com/etc/passwd"}), false},
		{"a fetch with a method", allow(store.RuleFetch, "example.com"), call(dir, "WebFetch", args{"url": "https://example.com/", "method": "POST"}), false},
	} {
		if got := matches(t, tc.rule, tc.call); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	question := call(dir, "Bash", args{"command": "git status"})
	question.Approval.Kind = event.ApprovalQuestion
	if matches(t, status, question) {
		t.Error("a rule answers a question of the agent")
	}
	twice := call(dir, "Bash", nil)
	twice.Approval.Arguments = json.RawMessage(`{"command":"git status","command":"rm -rf ~"}`)
	twice.Approval.ArgumentsDigest = digest(twice.Approval.Arguments)
	if matches(t, status, twice) || matches(t, allow(store.RuleExecute, "rm -rf '~'"), twice) {
		t.Error("a rule matches arguments with a key that is there twice")
	}
}

// realDir returns a temporary directory by its path without links.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Redaction hides every text that stands where a secret usually stands, such as
// a command that an agent writes there. A rule must not allow text that it
// cannot see.
func TestRulesDecideNothingThatIsHiddenFromThem(t *testing.T) {
	const hidden = `curl "https://u:[redacted]@example.com/"` // the secret was x$(reboot)
	for name, c := range map[string]Call{
		"a marker in the command": call("/p", "Bash", args{"command": hidden}),
		"other arguments":         {Dir: "/p", Approval: event.Approval{Kind: event.ApprovalTool, ToolName: "Bash", Arguments: json.RawMessage(`{"command":"curl x"}`), ArgumentsDigest: digest([]byte("{}"))}},
		"no digest":               {Dir: "/p", Approval: event.Approval{Kind: event.ApprovalTool, ToolName: "Bash", Arguments: json.RawMessage(`{"command":"curl x"}`)}},
	} {
		if matches(t, allow(store.RuleExecute, "curl *"), c) || matches(t, allow(store.RuleExecute, "curl x"), c) || matches(t, allow(store.RuleExecute, hidden), c) {
			t.Errorf("%s: an allow rule matches", name)
		}
		if len(Suggest(c)) != 0 {
			t.Errorf("%s: a rule is suggested", name)
		}
		if denied, ask := judged(t, []store.Rule{deny(store.RuleExecute, "reboot")}, c); denied || !ask {
			t.Errorf("%s: a deny rule that might match does not ask", name)
		}
	}
	dir := realDir(t)
	c := call(dir, "write_file", args{"description": "Write"})
	c.Approval.Changes = []event.Change{{Path: filepath.Join(dir, "[redacted]")}}
	if matches(t, allow(store.RuleEdit, dir), c) {
		t.Error("an allow rule matches a path of which a part is hidden")
	}
}

func TestPathsMatchAfterLinksAreResolved(t *testing.T) {
	root := realDir(t)
	dir, out := filepath.Join(root, "p"), filepath.Join(root, "out")
	for _, d := range []string{filepath.Join(dir, "src"), out} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(dir, "src", "a"), filepath.Join(out, "secret")} {
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link(out, "src/away")
	link(filepath.Join(out, "secret"), "src/file")
	link(filepath.Join(out, "new"), "src/nowhere")
	link("loop", "src/loop")
	link(filepath.Join(dir, "src"), "in")
	in := func(p string) string { return filepath.Join(dir, p) }
	edits, reads := allow(store.RuleEdit, in("src")), allow(store.RuleRead, in("src"))
	denies := deny(store.RuleEdit, out)
	for _, tc := range []struct {
		path           string
		allowed        bool
		denied, unsure bool
	}{
		{in("src/a"), true, false, false},
		{"src/a", false, false, true}, // the agent may mean a file of another folder
		{in("src"), true, false, false},
		{in("src/new"), true, false, false},
		{in("src/new/folder/file"), true, false, false},
		{in("in/a"), true, false, false},
		{in("src/away/secret"), false, true, false},
		{in("src/away/new"), false, true, false},
		{in("src/file"), false, true, false},
		{in("src/nowhere"), false, false, true},
		{in("src/loop"), false, false, true},
		{in("src/a/below-a-file"), false, false, true},
		{dir + "/src/../x", false, false, true},
		{dir + "/src/away/../a", false, false, true},
		{"../out/secret", false, false, true},
		{in("srcs"), false, false, false},
		{dir, false, false, false},
		{"~/x", false, false, true},
		{filepath.Join(out, "secret"), false, true, false},
		{"", false, false, true},
	} {
		c := call(dir, "Write", args{"file_path": tc.path, "content": "x"})
		if got := matches(t, edits, c); got != tc.allowed {
			t.Errorf("edit of %s: allowed %v, want %v", tc.path, got, tc.allowed)
		}
		if got := matches(t, reads, call(dir, "Read", args{"file_path": tc.path})); got != tc.allowed {
			t.Errorf("read of %s: allowed %v, want %v", tc.path, got, tc.allowed)
		}
		if denied, ask := judged(t, []store.Rule{denies}, c); denied != tc.denied || ask != tc.unsure {
			t.Errorf("edit of %s: denied %v, ask %v, want %v, %v", tc.path, denied, ask, tc.denied, tc.unsure)
		}
	}
	both := call(dir, "apply_patch", args{"changes": []args{{"path": in("src/a")}, {"path": filepath.Join(out, "x")}}})
	if matches(t, edits, both) || !matches(t, denies, both) {
		t.Error("one path inside of the folder allows another outside of it")
	}
	moved := call(dir, "edit", args{"path": in("src/a")})
	moved.Approval.Changes = []event.Change{{Path: in("src/a"), MovedTo: filepath.Join(out, "x")}}
	if matches(t, edits, moved) || !matches(t, denies, moved) {
		t.Error("a file may be moved out of the folder")
	}

	// Links such as /proc/self/cwd lead each process to a different file.
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" {
		link("/proc/self/cwd", "own")
		for _, path := range []string{"/proc/self/cwd/x", "/proc/thread-self/cwd/x", fmt.Sprintf("/proc/%d/cwd/x", os.Getpid()), "/proc/self/root" + cwd + "/x", "/dev/fd/0", "/dev/stdin", in("own/x"), in("own")} {
			for _, rule := range []store.Rule{allow(store.RuleEdit, "/"), allow(store.RuleEdit, cwd)} {
				if matches(t, rule, call(dir, "Write", args{"file_path": path})) {
					t.Errorf("edit of %s: allowed in %s", path, rule.Pattern)
				}
			}
			if denied, ask := judged(t, []store.Rule{denies}, call(dir, "Write", args{"file_path": path})); !denied && !ask {
				t.Errorf("edit of %s: a rule that denies is sure", path)
			}
		}
		git := allow(store.RuleExecute, "git status")
		git.ProjectDir = cwd
		if matches(t, git, call(cwd, "shell", args{"command": "git status", "cwd": "/proc/self/cwd"})) {
			t.Error("a command in /proc/self/cwd is allowed")
		}
	}

	// Replace the folder of the rule by a link. The rule then no longer matches
	// paths through the folder's old name.
	if err := os.Rename(in("src"), in("old")); err != nil {
		t.Fatal(err)
	}
	link(out, "src")
	if matches(t, edits, call(dir, "Write", args{"file_path": in("src/secret")})) {
		t.Error("a link in place of the rule's folder is followed")
	}
}

// Agents do not read these paths as the file system does. They expand home
// directories, trim spaces, remove backslashes, accept a URL as a path, or
// resolve a relative path from another folder than the session's, such as the
// repository's root. So an allow rule does not match such a path, and a deny
// rule asks.
func TestPathsThatAgentsReadInTheirOwnWayAsk(t *testing.T) {
	dir := realDir(t)
	edits, reads, denies := allow(store.RuleEdit, dir), allow(store.RuleRead, dir), deny(store.RuleEdit, "/etc")
	for _, path := range []string{
		"~", "~/.bashrc", "~root/.bashrc", "$HOME/.bashrc", "${HOME}/.bashrc", "%USERPROFILE%/x", "@/etc/passwd", "file:///etc/passwd",
		" /etc/passwd", "\t/etc/passwd", "\u00a0/etc/passwd", `"/etc/passwd"`, "a.txt, b.txt", "home/you/.bashrc", "packages/other/x",
		dir + "/x ", dir + "/x\n", dir + `/a\ b`, dir + "/a\u200bb",
	} {
		for tool, rule := range map[string]store.Rule{"Write": edits, "Read": reads} {
			if matches(t, rule, call(dir, tool, args{"file_path": path})) {
				t.Errorf("%s of %q is allowed in %s", tool, path, dir)
			}
		}
		c := call(dir, "edit", args{"filepath": path, "diff": "x"})
		c.Approval.Changes = []event.Change{{Path: path}}
		if matches(t, edits, c) || len(Suggest(c)) != 0 {
			t.Errorf("a change of %q is allowed in %s", path, dir)
		}
		if denied, ask := judged(t, []store.Rule{denies}, c); !denied && !ask {
			t.Errorf("a rule that denies is sure about %q", path)
		}
	}
	git := allow(store.RuleExecute, "git status")
	git.ProjectDir = dir
	for _, cwd := range []string{"~", "~/x", "$HOME", " /etc", "file:///etc", dir + "/x ", dir + `/a\ b`} {
		if matches(t, git, call(dir, "shell", args{"command": "git status", "cwd": cwd})) {
			t.Errorf("a command in %q is allowed in %s", cwd, dir)
		}
	}
}

// If an agent does not name a tool, its kind stands for every tool of that
// kind. The input that write_stdin sends to a running command is not shown.
func TestToolsWithoutANameOfTheirOwnCannotBeAllowed(t *testing.T) {
	for _, tool := range []string{"delete", "move", "search", "execute", "think", "switch_mode", "other", "tool", "write_stdin", "request_permissions"} {
		r := store.Rule{Effect: store.EffectAllow, Kind: store.RuleTool, Tool: tool}
		if _, err := Check(r); err == nil {
			t.Errorf("a rule allows every call of %s", tool)
		}
		c := call("/p", tool, args{"command": "rm -rf /"})
		if got := Suggest(c); len(got) != 0 {
			t.Errorf("%s: suggested %+v", tool, got)
		}
		if matches(t, r, c) {
			t.Errorf("a rule that was stored before allows every call of %s", tool)
		}
		r.Effect = store.EffectDeny
		if _, err := Check(r); err != nil {
			t.Errorf("%s cannot be denied: %v", tool, err)
		}
	}
}

func TestDenyRulesAskAboutWhatTheyCannotRead(t *testing.T) {
	list := []store.Rule{deny(store.RuleExecute, "rm *"), deny(store.RuleFetch, "evil.com")}
	for _, tc := range []struct {
		call        Call
		denied, ask bool
	}{
		{call("/p", "Bash", args{"command": "ls; rm x"}), true, false},
		{call("/p", "mcp__x__run", args{"command": "rm x"}), true, false},
		{call("/p", "Bash", args{"command": "ls 'a"}), false, true},
		{call("/p", "Bash", args{"command": "$X"}), false, true},
		{call("/p", "run_shell_command", args{"description": "rm x"}), false, true},
		{call("/p", "Bash", args{"command": "ls"}), false, false},
		{call("/p", "Write", args{"file_path": "/p/x"}), false, false},
		{call("/p", "WebFetch", args{"url": "https://evil.com"}), true, false},
		{call("/p", "WebFetch", args{"url": "https://x@evil.com"}), false, true},
		{call("/p", "mcp__x__get", args{"url": "https://evil.com"}), true, false},
	} {
		if denied, ask := judged(t, list, tc.call); denied != tc.denied || ask != tc.ask {
			t.Errorf("%s %s: denied %v, ask %v", tc.call.Approval.ToolName, tc.call.Approval.Arguments, denied, ask)
		}
	}
}

// A rule does not know what every tool does with a path in its arguments. For
// example, a search tool reads there. If a deny rule covers the path of such a
// call, a person is asked, even if another rule allows the call.
func TestDenyRulesAskAboutPathsOfOtherTools(t *testing.T) {
	for _, kind := range []store.RuleKind{store.RuleRead, store.RuleEdit} {
		list := []store.Rule{deny(kind, "/etc")}
		for path, want := range map[string]bool{"/etc": true, "/etc/ssl/x": true, "/": false, "/usr": false, "": false} {
			for _, tool := range []string{"Grep", "mcp__files__move"} {
				if denied, ask := judged(t, list, call("/p", tool, args{"pattern": "x", "path": path})); denied || ask != want {
					t.Errorf("%s: %s of %q: denied %v, ask %v, want %v", kind, tool, path, denied, ask, want)
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	dir := realDir(t)
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		rule store.Rule
		want string // the stored pattern, or a part of the error after "!"
	}{
		{allow(store.RuleExecute, " git   status "), "git status"},
		{allow(store.RuleExecute, `git commit -m "it's"`), `git commit -m 'it'"'"'s'`},
		{allow(store.RuleExecute, "git log *"), "git log *"},
		{allow(store.RuleExecute, "go test *"), "go test *"},
		{allow(store.RuleExecute, "sudo ls"), "sudo ls"},
		{allow(store.RuleExecute, "git status; rm x"), "!not one simple command"},
		{allow(store.RuleExecute, "git * x"), "!not one simple command"},
		{allow(store.RuleExecute, ""), "!not one simple command"},
		{allow(store.RuleExecute, "*"), "!every command"},
		{allow(store.RuleExecute, "git *"), "!name the subcommand first"},
		{allow(store.RuleExecute, "git -c x=y *"), "!name the subcommand first"},
		{allow(store.RuleExecute, "git rebase *"), "!git rebase runs the commands"},
		{allow(store.RuleExecute, "git bundle *"), "!git bundle writes"},
		{allow(store.RuleExecute, "git bundle verify x"), "git bundle verify x"},
		{allow(store.RuleExecute, "git web--browse *"), "!git web--browse runs"},
		{allow(store.RuleExecute, "go install *"), "!go install writes"},
		{allow(store.RuleExecute, "bun run *"), "!bun run runs"},
		{allow(store.RuleExecute, "bun run test *"), "bun run test *"},
		{allow(store.RuleExecute, "uniq *"), "!uniq writes"},
		{allow(store.RuleExecute, "npm exec *"), "!npm exec runs"},
		{allow(store.RuleExecute, "go env *"), "!go env runs"},
		{allow(store.RuleExecute, "npm exe *"), "!npm exe runs"}, // npm accepts unambiguous prefixes
		{allow(store.RuleExecute, "npm cr *"), "!npm cr runs"},
		{allow(store.RuleExecute, "npm c *"), "!npm c runs"},
		{allow(store.RuleExecute, "npm explore *"), "!npm explore runs"},
		{allow(store.RuleExecute, "npm i *"), "npm i *"},
		{allow(store.RuleExecute, "npm in *"), "npm in *"},
		{allow(store.RuleExecute, "npm ci *"), "npm ci *"},
		{allow(store.RuleExecute, "gh config *"), "!gh config runs"},
		{allow(store.RuleExecute, "gh ext *"), "!gh ext runs"},
		{allow(store.RuleExecute, "gh cs *"), "!gh cs runs"},
		{allow(store.RuleExecute, "kubectl config *"), "!kubectl config runs"},
		{allow(store.RuleExecute, "yarn set *"), "!yarn set runs"},
		{allow(store.RuleExecute, "yarn node *"), "!yarn node runs"},
		{allow(store.RuleExecute, "nvim *"), "!nvim runs"},
		{allow(store.RuleExecute, "sqlite3 *"), "!sqlite3 runs"},
		{deny(store.RuleExecute, `grep "a\\"`), "!ends with a backslash"},
		{allow(store.RuleExecute, "/usr/bin/env *"), "!env runs"},
		{allow(store.RuleExecute, "sudo ls *"), "!sudo runs"},
		{allow(store.RuleExecute, "python3.12 *"), "!python3.12 runs"},
		{allow(store.RuleExecute, "find . *"), "!find runs"},
		{allow(store.RuleExecute, "xargs *"), "!xargs runs"},
		{allow(store.RuleExecute, "sh -c *"), "!sh runs"},
		{allow(store.RuleExecute, "ssh host *"), "!ssh runs"},
		{allow(store.RuleExecute, "npx *"), "!npx runs"},
		{allow(store.RuleExecute, "curl *"), "!curl writes"},
		{allow(store.RuleExecute, "git clone *"), "!git clone runs"},
		{allow(store.RuleExecute, "gcc *"), "!gcc has arguments"},
		{allow(store.RuleExecute, "gcc -c x.c"), "gcc -c x.c"},
		{allow(store.RuleExecute, "terraform apply *"), "!only these can be allowed: output, show"},
		{allow(store.RuleExecute, "terraform show *"), "terraform show *"},
		{allow(store.RuleExecute, "systemctl status *"), "systemctl status *"},
		{allow(store.RuleExecute, "pip3 list *"), "pip3 list *"},
		{allow(store.RuleExecute, "cp *"), "!cp writes"},
		{allow(store.RuleExecute, "./release.sh *"), "./release.sh *"},
		{allow(store.RuleExecute, "git\nstatus"), "!printable"},
		{allow(store.RuleExecute, strings.Repeat("x", 5000)), "!4096"},
		{deny(store.RuleExecute, "*"), "*"},
		{deny(store.RuleExecute, "sudo *"), "sudo *"},
		{allow(store.RuleEdit, filepath.Join(dir, "link")), dir},
		{allow(store.RuleEdit, "relative"), "!absolute"},
		{allow(store.RuleEdit, dir+"/../x"), "!without .."},
		{store.Rule{Effect: store.EffectAllow, Kind: store.RuleEdit, ProjectDir: dir, Pattern: "src"}, filepath.Join(dir, "src")},
		{store.Rule{Effect: store.EffectAllow, Kind: store.RuleEdit, ProjectDir: "x", Pattern: "src"}, "!projectDir"},
		{allow(store.RuleFetch, "Example.COM"), "example.com"},
		{allow(store.RuleFetch, "*.example.com"), "*.example.com"},
		{allow(store.RuleFetch, "*"), "!not a host"},
		{allow(store.RuleFetch, "*.com"), "!not a host"},
		{allow(store.RuleFetch, "https://example.com"), "!not a host"},
		{allow(store.RuleConnect, "Example.COM:8443"), "example.com:8443"},
		{allow(store.RuleConnect, "*.example.com"), "*.example.com"},
		{allow(store.RuleConnect, "*"), "!not a host"},
		{allow(store.RuleConnect, "*.com:443"), "!not a host"},
		{allow(store.RuleConnect, "example.com:0443"), "!the port"},
		{allow(store.RuleConnect, "example.com:"), "!the port"},
		{allow(store.RuleConnect, "example.com:70000"), "!the port"},
		{allow(store.RuleConnect, "a:1:2"), "!not a host"},
		{allow(store.RuleConnect, "https://example.com"), "!not a host"},
		{store.Rule{Effect: store.EffectAllow, Kind: store.RuleConnect, Tool: "connect", Pattern: "example.com"}, "example.com"},
		{store.Rule{Effect: store.EffectAllow, Kind: store.RuleConnect, Tool: "Bash", Pattern: "example.com"}, "!kind connect has none"},
		{store.Rule{Effect: store.EffectAllow, Kind: store.RuleTool, Tool: "connect"}, "!kind connect"},
		{store.Rule{Effect: store.EffectDeny, Kind: store.RuleTool, Tool: "connect"}, ""},
		{store.Rule{Effect: store.EffectAllow, Kind: store.RuleTool, Tool: "mcp__t__add"}, ""},
		{store.Rule{Effect: store.EffectAllow, Kind: store.RuleTool, Tool: "Bash"}, "!kind execute"},
		{store.Rule{Effect: store.EffectAllow, Kind: store.RuleTool, Tool: "request_permissions"}, "!more permissions"},
		{store.Rule{Effect: store.EffectDeny, Kind: store.RuleTool, Tool: "Bash"}, ""},
		{store.Rule{Effect: store.EffectAllow, Kind: store.RuleTool}, "!is missing"},
		{store.Rule{Effect: "maybe", Kind: store.RuleTool}, "!effect"},
		{store.Rule{Effect: store.EffectAllow, Kind: "all"}, "!kind"},
	} {
		r, err := Check(tc.rule)
		if want, bad := strings.CutPrefix(tc.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %s", tc.rule, err, want)
			}
		} else if err != nil || r.Pattern != tc.want {
			t.Errorf("%+v: %q, %v, want %q", tc.rule, r.Pattern, err, tc.want)
		}
	}
}

func TestSuggest(t *testing.T) {
	dir := realDir(t)
	for _, tc := range []struct {
		call Call
		want string
	}{
		{call(dir, "Bash", args{"command": "git  status"}), "execute git status"},
		{call(dir, "Bash", args{"command": "git log -p x"}), "execute git log -p x|execute git log *"},
		{call(dir, "Bash", args{"command": "git rebase -x y"}), "execute git rebase -x y"},
		{call(dir, "Bash", args{"command": "rm -rf build"}), "execute rm -rf build"},
		{call(dir, "Bash", args{"command": "systemctl status a b"}), "execute systemctl status a b|execute systemctl status *"},
		{call(dir, "Bash", args{"command": "systemctl start a b"}), "execute systemctl start a b"},
		{call(dir, "Bash", args{"command": "git status; rm -rf ~"}), ""},
		{call(dir, "Bash", args{"command": "ls", "dangerouslyDisableSandbox": true}), ""},
		{call(dir, "Write", args{"file_path": filepath.Join(dir, "x")}), "edit " + dir + "/x|edit " + dir},
		{call(dir, "Write", args{"file_path": "/etc/x-y-z"}), "edit /etc/x-y-z"},
		{call(dir, "WebFetch", args{"url": "https://example.com/x", "prompt": "p"}), "fetch example.com"},
		{connection(dir, "example.com", 443), "connect example.com:443"},
		{connection(dir, "2001:db8::1", 443), ""},
		{call(dir, "mcp__t__add", args{"a": 1}), "tool "},
		{call(dir, "request_permissions", args{}), ""},
	} {
		var got []string
		for _, r := range Suggest(tc.call) {
			if r.ProjectDir != dir || r.CLIType != "some" || r.Effect != store.EffectAllow {
				t.Errorf("%+v", r)
			}
			got = append(got, string(r.Kind)+" "+r.Pattern)
		}
		if s := strings.Join(got, "|"); s != tc.want {
			t.Errorf("%s: %q, want %q", tc.call.Approval.Arguments, s, tc.want)
		}
	}
}

func TestExplain(t *testing.T) {
	r := store.Rule{ID: 12, Effect: store.EffectAllow, ByName: "laptop", CreatedAt: time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)}
	if got := Explain(r); got != "allowed by rule 12, made by laptop on 2026-11-22" {
		t.Error(got)
	}
	r.Effect, r.ByName = store.EffectDeny, ""
	if got := Explain(r); got != "denied by rule 12, made on 2026-11-22" {
		t.Error(got)
	}
}

func digest(args []byte) string { return fmt.Sprintf("%x", sha256.Sum256(args)) }

// A rule that denies requests to a host also denies connections to it.
func TestDenyRulesAboutConnections(t *testing.T) {
	dir := realDir(t)
	for _, tc := range []struct {
		rule        store.Rule
		host        string
		port        int
		denied, ask bool
	}{
		{deny(store.RuleConnect, "evil.com"), "evil.com", 443, true, false},
		{deny(store.RuleConnect, "evil.com"), "evil.com", 22, false, false},
		{deny(store.RuleConnect, "evil.com:22"), "evil.com", 22, true, false},
		{deny(store.RuleConnect, "evil.com"), "good.com", 443, false, false},
		{deny(store.RuleConnect, "evil.com"), "2001:db8::1", 443, false, true}, // a rule cannot match the address
		{deny(store.RuleFetch, "evil.com"), "evil.com", 443, true, false},
		{deny(store.RuleFetch, "evil.com"), "evil.com", 80, true, false},
		{deny(store.RuleFetch, "*.evil.com"), "a.evil.com", 443, true, false},
		{deny(store.RuleFetch, "evil.com"), "good.com", 443, false, false},
		{store.Rule{Effect: store.EffectDeny, Kind: store.RuleTool, Tool: "connect"}, "good.com", 443, true, false},
		{deny(store.RuleExecute, "rm *"), "good.com", 443, false, false},
	} {
		if _, denied, ask := NewSet([]store.Rule{tc.rule}).Denies(connection(dir, tc.host, tc.port)); denied != tc.denied || ask != tc.ask {
			t.Errorf("%s, %s:%d: denied %v, ask %v", Text(tc.rule), tc.host, tc.port, denied, ask)
		}
	}
	if _, denied, ask := NewSet([]store.Rule{deny(store.RuleConnect, "evil.com")}).Denies(call(dir, "WebFetch", args{"url": "https://evil.com/"})); denied || ask {
		t.Error("a rule about connections denies a request of the agent itself")
	}
	own := call(dir, event.ToolAgentConnect, args{"host": "good.com", "port": 443})
	if _, denied, _ := NewSet([]store.Rule{{Effect: store.EffectDeny, Kind: store.RuleTool, Tool: "connect"}}).Denies(own); !denied {
		t.Error("a rule that denies the tool connect does not deny the agent's own tool of that name")
	}
}
