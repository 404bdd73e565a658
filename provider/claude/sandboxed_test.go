package claude

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/jsonl"
)

// sandboxedState has the folders of a test about state that an agent in a sandbox
// can write.
type sandboxedState struct {
	t                         *testing.T
	root, config, dir, folder string // folder is that of the conversations of dir
}

const plantedID = "11111111-2222-4333-8444-555555555555"

func newSandboxedState(t *testing.T) sandboxedState {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := sandboxedState{t: t, root: root, config: filepath.Join(root, "claude"), dir: filepath.Join(root, "repo")}
	s.folder = filepath.Join(s.config, "projects", slug(s.dir))
	for _, d := range []string{filepath.Join(s.dir, ".git"), s.folder, filepath.Join(root, "outside"), filepath.Join(s.config, "skills")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.write(filepath.Join(root, "outside", "secret"), "x")
	s.write(filepath.Join(s.dir, "file"), "x")
	s.write(filepath.Join(s.config, "skills", "s.md"), "x")
	return s
}

func (s sandboxedState) write(path, content string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s sandboxedState) link(to, path string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		s.t.Fatal(err)
	}
}

// check returns the error of checkState for a start without a sandbox, after one in
// a sandbox if sandboxed is set.
func (s sandboxedState) check(sandboxed bool, opt runnel.Options) error {
	s.t.Helper()
	env := []string{"CLAUDE_CONFIG_DIR=" + s.config, "HOME=" + s.root}
	if opt.Dir == "" {
		opt.Dir = s.dir
	}
	if sandboxed {
		if err := checkState(s.t.Context(), env, runnel.Options{Dir: opt.Dir, Resume: opt.Resume, Sandbox: runnel.SandboxProject}); err != nil {
			s.t.Fatal(err)
		}
	}
	return checkState(s.t.Context(), env, opt)
}

// The agent reads files again that a conversation has read or written, without
// asking. An agent in a sandbox can write conversations.
func TestConversationOfASandboxContinuesOutsideOnlyWithItsOwnFiles(t *testing.T) {
	call := func(tool, arguments string) string {
		return `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"` + tool + `","input":` + arguments + `}]}}` + "\n"
	}
	for name, c := range map[string]struct {
		text    string // ROOT stands for the folder around the project
		file    string // in the folder of the conversations; "" for the conversation's own
		alone   bool   // no agent was in a sandbox
		addDirs bool
		below   string // the session's folder in the project
		link    string // in the project, to the file to or to a secret
		to      string // in the folder around the project
		noNotes bool   // a file is in the place of the folder for notes
		refused bool
	}{
		"written":                {text: call("Write", `{"file_path":"ROOT/outside/secret","content":"x"}`), refused: true},
		"read":                   {text: call("Read", `{"file_path":"ROOT/outside/secret"}`), refused: true},
		"without a sandbox":      {text: call("Write", `{"file_path":"ROOT/outside/secret"}`), alone: true},
		"without a line's end":   {text: strings.TrimSuffix(call("Read", `{"file_path":"ROOT/outside/secret"}`), "\n"), refused: true},
		"a relative path":        {text: call("Read", `{"file_path":"../outside/secret"}`), refused: true},
		"the home directory":     {text: call("Read", `{"file_path":"~/outside/secret"}`), refused: true},
		"spaces around":          {text: call("Read", `{"file_path":" ROOT/outside/secret "}`), refused: true},
		"by a link":              {text: call("Read", `{"file_path":"ROOT/repo/link"}`), refused: true},
		"another name":           {text: call("NotebookEdit", `{"notebook_path":"ROOT/outside/secret"}`), refused: true},
		"arguments in a text":    {text: call("Read", `"{\"file_path\":\"ROOT/outside/secret\"}"`), refused: true},
		"with escapes":           {text: strings.Replace(call("Read", `{"file_path":"ROOT/outside/secret"}`), "tool_use", `tool\u005fuse`, 1), refused: true},
		"after other characters": {text: "\x00\ufeff " + call("Read", `{"file_path":"ROOT/outside/secret"}`), refused: true},
		"beside deep values":     {text: strings.Replace(call("Read", `{"file_path":"ROOT/outside/secret"}`), `"message"`, `"x":`+strings.Repeat("[", 10_001)+strings.Repeat("]", 10_001)+`,"message"`, 1), refused: true},
		"of a subagent":          {text: call("Read", `{"file_path":"ROOT/outside/secret"}`), file: plantedID + "/subagents/agent-a.jsonl", refused: true},
		"a further directory":    {text: call("Read", `{"file_path":"ROOT/outside/secret"}`), addDirs: true},
		"does not exist":         {text: call("Write", `{"file_path":"ROOT/outside/other"}`)},
		"in the project":         {text: call("Read", `{"file_path":"ROOT/repo/file"}`)},
		"a skill of the user":    {text: call("Read", `{"file_path":"ROOT/claude/skills/s.md"}`)},
		"a program":              {text: call("Read", `{"file_path":"/bin/sh"}`)},
		"an unusual space":       {text: call("Read", `{"file_path":"\ufeffROOT/outside/secret"}`), refused: true},
		"no space for the agent": {text: call("Read", `{"file_path":"\u0085/link"}`), link: "\u0085/link", refused: true},
		"a part and back":        {text: call("Read", `{"file_path":"ROOT/repo/none/../../outside/secret"}`), refused: true},
		"the agent's own folder": {text: call("Read", `{"file_path":"/proc/self/cwd/../outside/secret"}`), refused: runtime.GOOS == "linux"},
		"that folder by a link":  {text: call("Read", `{"file_path":"ROOT/repo/a/b/outside/secret"}`), link: "a/b", to: "../../../../../../../proc/self/cwd/..", refused: runtime.GOOS == "linux"},
		"in a worktree":          {text: `{"type":"worktree-state","worktreeSession":{"worktreePath":"ROOT/repo/.claude/worktrees/w"}}` + "\n" + call("Read", `{"file_path":"../../../../outside/secret"}`), refused: true},
		"before a worktree":      {text: call("Read", `{"file_path":"link2"}`) + `{"type":"worktree-state","worktreeSession":{"worktreePath":"ROOT/repo/.claude/worktrees/w"}}` + "\n", link: ".claude/worktrees/w/link2", refused: true},
		"of a worktree":          {text: `{"type":"worktree-state","worktreeSession":{"worktreePath":"ROOT/repo/.claude/worktrees/w"}}` + "\n" + call("Read", `{"file_path":"file"}`)},
		"worktrees by a link":    {text: call("Read", `{"file_path":"ROOT/outside/secret"}`), link: ".claude/worktrees", to: "outside", refused: true},
		"of other users":         {text: call("Read", `{"file_path":"/proc/1/status"}`), refused: runtime.GOOS == "linux"},
		"many values":            {text: strings.Replace(call("Read", `{}`), `"message"`, `"x":[`+strings.Repeat("0,", jsonl.MaxValues)+`0],"message"`, 1), refused: true},
		"many values in a text":  {text: call("Read", `"[`+strings.Repeat("0,", jsonl.MaxValues+1)+`0]"`), refused: true},
		"deep values in a text":  {text: call("Read", `"{\"x\":`+strings.Repeat("[", 10_001)+strings.Repeat("]", 10_001)+`,\"file_path\":\"ROOT/outside/secret\"}"`), refused: true},
		"JSON as content":        {text: call("Write", `{"file_path":"ROOT/repo/file","content":"{\"path\":\"ROOT/outside/secret\"}"}`)},
		"a plan":                 {text: call("ExitPlanMode", `{"plan":"p","planFilePath":"ROOT/claude/plans/p.md"}`)},
		"a link among the plans": {text: call("Read", `{"file_path":"ROOT/claude/plans/link"}`), refused: true},
		"a memory":               {text: call("Write", `{"file_path":"MEMORY/memory/m.md"}`), below: "sub"},
		"beside the memories":    {text: call("Write", `{"file_path":"MEMORY/x.jsonl"}`), below: "sub", refused: true},
		"a folder":               {text: call("Grep", `{"path":"ROOT/outside"}`)},
		"below a file":           {text: call("Read", `{"file_path":"ROOT/outside/secret/x"}`)},
		"a long name":            {text: call("Read", `{"file_path":"ROOT/outside/`+strings.Repeat("x", 5000)+`"}`)},
		"a link to itself":       {text: call("Read", `{"file_path":"ROOT/outside/loop"}`)},
		"a setting of a system":  {text: call("Read", `{"file_path":"/etc/passwd"}`)},
		"a toolchain":            {text: call("Read", `{"file_path":"ROOT/go/pkg/mod/x.go"}`)},
		"a file for the notes":   {text: call("Read", `{"file_path":"ROOT/outside/secret"}`), alone: true, noNotes: true},
		"text":                   {text: `{"type":"user","message":{"content":"tool_use file_path ROOT/outside/secret"}}` + "\n"},
		"torn":                   {text: strings.TrimSuffix(call("Read", `{"file_path":"ROOT/outside/secret"}`), "}]}}\n")},
	} {
		s := newSandboxedState(t)
		s.link(filepath.Join(s.root, "outside", "secret"), filepath.Join(s.dir, "link"))
		s.link(filepath.Join(s.root, "outside", "secret"), filepath.Join(s.config, "plans", "link"))
		s.link("loop", filepath.Join(s.root, "outside", "loop"))
		if c.link != "" {
			s.link(filepath.Join(s.root, cmp.Or(c.to, "outside/secret")), filepath.Join(s.dir, c.link))
		}
		if c.noNotes {
			s.write(filepath.Join(s.config, "runnel"), "x")
		}
		dir := filepath.Join(s.dir, c.below)
		folder := filepath.Join(s.config, "projects", slug(dir))
		for _, file := range []string{filepath.Join(dir, "x"), filepath.Join(s.config, "plans", "p.md"), filepath.Join(s.folder, "memory", "m.md"), filepath.Join(s.folder, "x.jsonl"), filepath.Join(s.root, "go", "pkg", "mod", "x.go")} {
			s.write(file, "x")
		}
		conversation := filepath.Join(folder, plantedID+".jsonl")
		s.write(conversation, "{}\n")
		if c.file != "" {
			conversation = filepath.Join(folder, c.file)
		}
		t.Setenv("HOME", s.root)
		s.write(conversation, strings.NewReplacer("ROOT", s.root, "MEMORY", s.folder).Replace(c.text))
		opt := runnel.Options{Dir: dir, Resume: plantedID}
		if c.addDirs {
			opt.AddDirs = []string{filepath.Join(s.root, "outside")}
		}
		err := s.check(!c.alone, opt)
		if refused := runnel.CodeOf(err) == runnel.WorkingRootConflict; refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The agent sends its memories to the model, also those that a link names.
func TestMemoriesOfASandboxLeadNowhereElse(t *testing.T) {
	for name, c := range map[string]struct {
		to, link string // to is in the folder around the project
		below    string // the session's folder in the project
		alone    bool   // no agent was in a sandbox
		refused  bool
	}{
		"index":             {to: "outside/secret", link: "memory/MEMORY.md", refused: true},
		"folder":            {to: "outside", link: "memory", refused: true},
		"further down":      {to: "outside/secret", link: "memory/a/b/x.md", refused: true},
		"to no file":        {to: "outside/none", link: "memory/MEMORY.md", refused: true},
		"to no file of its": {to: "repo/none", link: "memory/MEMORY.md", refused: true},
		"of the repository": {to: "outside/secret", link: "memory/MEMORY.md", below: "sub", refused: true},
		"without a sandbox": {to: "outside/secret", link: "memory/MEMORY.md", alone: true},
		"to the project":    {to: "repo/file", link: "memory/MEMORY.md"},
		"elsewhere":         {to: "outside/secret", link: "x.md"},
	} {
		s := newSandboxedState(t)
		s.link(filepath.Join(s.root, c.to), filepath.Join(s.folder, c.link))
		if err := os.MkdirAll(filepath.Join(s.dir, c.below), 0o700); err != nil {
			t.Fatal(err)
		}
		if !c.alone && s.check(true, runnel.Options{Sandbox: runnel.SandboxProject}) != nil {
			t.Fatal(name)
		}
		err := s.check(false, runnel.Options{Dir: filepath.Join(s.dir, c.below)})
		if refused := runnel.CodeOf(err) == runnel.SessionCreateFailed; refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An agent in a sandbox can create many files.
func TestMemoriesThatCannotBeSearchedAreRefused(t *testing.T) {
	s := newSandboxedState(t)
	memories := filepath.Join(s.folder, "memory")
	s.write(filepath.Join(memories, "a.md"), "x")
	s.write(filepath.Join(memories, "b", "c.md"), "x")
	if at, why := linkAmong(memories, nil, 4); at != "" {
		t.Error(at, why)
	}
	if at, why := linkAmong(memories, nil, 3); at != memories || !strings.Contains(why, "too many") {
		t.Error(at, why)
	}
	if os.Getuid() == 0 {
		return // root can list every folder
	}
	closed := filepath.Join(memories, "b")
	if err := os.Chmod(closed, 0o300); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(closed, 0o700) }()
	if at, why := linkAmong(memories, nil, 4); at != closed || !strings.Contains(why, "cannot be listed") {
		t.Error(at, why)
	}
}

// A person decides by the error what to do.
func TestConversationOfASandboxIsRefusedWithItsFilesAndTheWayOut(t *testing.T) {
	s := newSandboxedState(t)
	var text strings.Builder
	for _, name := range []string{"a/1", "a/2", "b/1", "c/1", "d/1"} {
		file := filepath.Join(s.root, "outside", name)
		s.write(file, "x")
		text.WriteString(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Read","input":{"file_path":"` + file + `"}}]}}` + "\n")
	}
	s.write(filepath.Join(s.folder, plantedID+".jsonl"), text.String())
	opt := runnel.Options{Resume: plantedID}
	err := s.check(true, opt)
	if err == nil {
		t.Fatal("the conversation continues")
	}
	note := noteOfSandbox(s.config, slug(s.dir))
	for part, want := range map[string]bool{"outside/a/1": true, "outside/b/1": true, "outside/c/1": true, note: true, "outside/a/2": false, "outside/d/1": false} {
		if strings.Contains(err.Error(), part) != want {
			t.Errorf("%s: %v", part, err)
		}
	}
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	if err := s.check(false, opt); err != nil {
		t.Error(err)
	}
}

func TestSearchForNamedFilesEndsWithItsContext(t *testing.T) {
	s := newSandboxedState(t)
	s.write(filepath.Join(s.folder, plantedID+".jsonl"), "{}\n")
	if err := s.check(true, runnel.Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	env := []string{"CLAUDE_CONFIG_DIR=" + s.config, "HOME=" + s.root}
	if err := checkState(ctx, env, runnel.Options{Dir: s.dir, Resume: plantedID}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Results of tools name only the id of a call.
func TestSearchForNamedFilesDecodesOnlyCalls(t *testing.T) {
	c := namedFiles{}
	result := []byte(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"` + strings.Repeat("x", 100) + `"}]}}`)
	if n := testing.AllocsPerRun(10, func() { c.inLine(result) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
