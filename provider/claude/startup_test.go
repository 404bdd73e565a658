package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// recordingBinary returns a program that writes its arguments to a file and
// exits.
func recordingBinary(t *testing.T) (path, argsFile string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell script")
	}
	dir := t.TempDir()
	path, argsFile = filepath.Join(dir, "claude"), filepath.Join(dir, "args")
	script := "#!/bin/sh\nfor a in \"$@\"; do printf '%s\\0' \"$a\"; done > " + argsFile + "\n"
	if err := testexec.Write(path, script); err != nil {
		t.Fatal(err)
	}
	return path, argsFile
}

func TestCommandLineIsFixed(t *testing.T) {
	opt := runnel.Options{
		Model: "opus[1m]", Tools: []string{"Read", "mcp__x__y"}, MaxTurns: 3, PermissionMode: runnel.ModePlan,
		ReasoningEffort: "high", MaxThinkingTokens: 100, Resume: "11111111-2222-4333-8444-555555555555", Dir: t.TempDir(),
		AddDirs: []string{"/some where"}, SystemPromptAppend: "be brief", MCPServers: json.RawMessage(`{"a":{}}`),
	}
	path, file := recordingBinary(t)
	opt.Path = path
	if _, err := New().Open(t.Context(), opt); err == nil {
		t.Fatal("Open succeeded")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"--output-format=stream-json", "--verbose", "--input-format=stream-json", "--include-partial-messages",
		"--permission-prompt-tool=stdio", "--setting-sources=user", "--resume=11111111-2222-4333-8444-555555555555",
		"--model=opus[1m]", "--effort=high", "--tools=Read,mcp__x__y", "--max-turns=3", "--max-thinking-tokens=100",
		"--permission-mode=plan", "",
	}
	if d := cmp.Diff(want, strings.Split(string(data), "\x00")); d != "" {
		t.Error(d)
	}
}

func TestClientValuesCannotBecomeFlags(t *testing.T) {
	path, file := recordingBinary(t)
	fixed, err := argv(runnel.Options{}, false)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"--settings={}", "-x", "--", "a b", "a\nb", "../x", "$(touch x)", "model", "claude-opus-4", "opus[1m]", "opus[1m]x", "a,--b",
		}))
		opt := runnel.Options{
			Path: path, Model: text.Draw(rt, "model"), ReasoningEffort: text.Draw(rt, "effort"),
			Tools: rapid.SliceOfN(text, 0, 2).Draw(rt, "tools"), PermissionMode: runnel.PermissionMode(text.Draw(rt, "mode")),
			MaxTurns: rapid.Int().Draw(rt, "turns"), AddDirs: rapid.SliceOfN(text, 0, 2).Draw(rt, "dirs"),
			SystemPromptAppend: text.Draw(rt, "append"), AllowBypass: rapid.Bool().Draw(rt, "bypass"),
		}
		if rapid.Bool().Draw(rt, "resuming") {
			opt.Resume = text.Draw(rt, "resume")
		}
		os.Remove(file)
		_, _ = New().Open(context.Background(), opt) // the program exits at once
		data, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			return // rejected before the program was started
		}
		if err != nil {
			rt.Fatal(err)
		}
		for _, a := range strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00") {
			flag, value, has := strings.Cut(a, "=")
			switch {
			case slices.Contains(fixed, a), a == "--allow-dangerously-skip-permissions":
			case !has || !strings.HasPrefix(flag, "--"):
				rt.Errorf("argument %q", a)
			case flag == "--tools":
				for _, tool := range strings.Split(value, ",") {
					if !token().MatchString(tool) {
						rt.Errorf("argument %q", a)
					}
				}
			case !modelName.MatchString(value):
				rt.Errorf("argument %q", a)
			}
		}
	})
}

func TestConversationIDsCannotBeFlags(t *testing.T) {
	for _, opt := range []runnel.Options{
		{Resume: "--dangerously-skip-permissions"}, {Resume: "../x"}, {Resume: strings.Repeat("a", 1<<20)},
		{Model: "--dangerously-skip-permissions"}, {Model: "../x"}, {Model: strings.Repeat("a", 1<<20)},
		{ReasoningEffort: "--x"}, {Tools: []string{"Read", "--x"}}, {PermissionMode: "--x"}, {PermissionMode: runnel.ModeBypass},
		{MCPServers: json.RawMessage(`[]`)},
	} {
		if _, err := New().Open(t.Context(), opt); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%.60v: %v", opt, err)
		}
	}
}

func TestOnlyAllowedVariablesReachTheAgent(t *testing.T) {
	secrets := []string{"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY", "RUNNEL_TOKEN", "ANTHROPIC_ADMIN_KEY", "NPM_TOKEN", "SSH_AUTH_SOCK"}
	for i := range 200 {
		secrets = append(secrets, "FOO_API_KEY_"+itoa(i))
	}
	for _, name := range secrets {
		t.Setenv(name, "canary-"+name)
	}
	t.Setenv("CLAUDE_CODE_USE_BEDROCK", "")
	t.Setenv("LC_ALL", "C.UTF-8")
	env := environ(os.Environ(), runnel.Options{Env: []string{"MINE=1"}})
	for _, e := range env {
		if strings.Contains(e, "canary-") {
			t.Errorf("the agent inherits %s", e)
		}
	}
	for _, want := range []string{"MINE=1", "LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing", want)
		}
	}
	t.Setenv("CLAUDE_CODE_USE_BEDROCK", "1")
	if !slices.Contains(environ(os.Environ(), runnel.Options{}), "AWS_SECRET_ACCESS_KEY=canary-AWS_SECRET_ACCESS_KEY") {
		t.Error("Bedrock needs the AWS credentials")
	}
}

func TestToolsOfTheAgentSeeNoSecrets(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", "canary-1")
	t.Setenv("RUNNEL_TOKEN", "canary-2")
	b := realagents.Claude(t)[0]
	r := newRig(t, b)
	_, a := r.ask("env > env.txt", fakemodel.Step{Text: "ok"})
	r.Decide(a, runnel.Decision{Choice: allowOnce})
	r.Finish(allowOnce)
	if env := r.Read("env.txt"); strings.Contains(env, "canary") || !strings.Contains(env, "PATH=") {
		t.Errorf("the tool sees\n%s", env)
	}
}

func TestOpenReportsStartupFailures(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		open := func(change func(*runnel.Options)) error {
			opt := r.Opt
			change(&opt)
			c, err := New().Open(t.Context(), opt)
			if err == nil {
				c.Close()
			}
			return err
		}
		unknown := open(func(o *runnel.Options) { o.Resume = uuid.NewString() })
		if runnel.CodeOf(unknown) != runnel.SessionNotFound {
			t.Errorf("unknown conversation: %v", unknown)
		}
		if err := open(func(o *runnel.Options) { o.Dir = r.File("missing") }); runnel.CodeOf(err) != runnel.WorkingRootInaccessible {
			t.Errorf("missing directory: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := New().Open(ctx, r.Opt); runnel.CodeOf(err) != runnel.Timeout {
			t.Errorf("cancelled context: %v", err)
		}
	})
	if _, err := New().Open(t.Context(), runnel.Options{Path: filepath.Join(t.TempDir(), "claude")}); runnel.CodeOf(err) != runnel.AgentNotInstalled || !strings.Contains(err.Error(), installCommand) {
		t.Errorf("not installed: %v", err)
	}
}

func TestOpenWithoutCredentialsReportsTheLoginCommand(t *testing.T) {
	eachAgentSerially(t, func(t *testing.T, r *rig) {
		r.Opt.Env = append(r.Opt.Env, "ANTHROPIC_API_KEY=")
		t.Setenv("ANTHROPIC_API_KEY", "")
		c, err := New().Open(t.Context(), r.Opt)
		if runnel.CodeOf(err) != runnel.AgentNotLoggedIn || !strings.Contains(err.Error(), loginCommand) {
			t.Errorf("got %v", err)
		}
		if err == nil {
			_ = c.Close()
		}
	})
}

func TestProbeReportsVersionAndLogin(t *testing.T) {
	for _, b := range realagents.UsualClaude(t) {
		t.Run(b.Version, func(t *testing.T) {
			t.Setenv("ANTHROPIC_API_KEY", "")
			home := realagents.NewHome(t, "http://127.0.0.1:1")
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			in := New().probe(ctx, runnel.Options{Path: b.Path, Env: home.Environ()})
			if !in.Installed || in.Version != b.Version || in.Path != b.Path || in.LoggedIn == nil || !*in.LoggedIn || in.Problem != "" || len(in.Models) == 0 {
				t.Errorf("with a key: %+v", in)
			}
			in = New().probe(ctx, runnel.Options{Path: b.Path, Env: append(home.Environ(), "ANTHROPIC_API_KEY=")})
			if !in.Installed || in.LoggedIn == nil || *in.LoggedIn || !strings.Contains(in.Problem, loginCommand) {
				t.Errorf("without a key: %+v", in)
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	if in := New().Probe(t.Context()); in.Installed || !strings.Contains(in.Problem, installCommand) {
		t.Errorf("not installed: %+v", in)
	}
}

func TestCloseStopsTheAgentAndItsTools(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		_, a := r.ask("echo $$ > pid; touch started; sleep 600")
		r.Decide(a, runnel.Decision{Choice: allowOnce})
		await(t, r.File("started"))
		if err := r.Conn.Close(); err != nil {
			t.Fatal(err)
		}
		if err := exec.Command("kill", "-0", strings.TrimSpace(r.Read("pid"))).Run(); err == nil {
			t.Error("the tool's process still runs")
		}
		if err := r.Conn.Close(); err != nil {
			t.Errorf("closing again: %v", err)
		}
		if st, ok := r.Conn.(runnel.Exiter).ExitStatus(); !ok {
			t.Errorf("no exit status: %+v", st)
		}
	})
}

// The error's cause says why it is not known how the agent ended.
func TestErrorOfAnAgentWithoutSupervisorNamesTheCause(t *testing.T) {
	program := filepath.Join(t.TempDir(), "claude")
	if err := testexec.Write(program, "#!/bin/sh\nread line\nkill -9 $PPID\nexec sleep 60\n"); err != nil {
		t.Fatal(err)
	}
	_, err := New().WithProgram([]string{program}, nil).Open(t.Context(), runnel.Options{Dir: t.TempDir()})
	if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(fmt.Sprint(runnel.Safe(err).Err), "supervisor has ended (signal: killed)") {
		t.Error(err)
	}
}
