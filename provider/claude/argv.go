package claude

import (
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
)

// token matches the values from clients that may stand on the command line,
// always in one argument of the form --flag=value. Claude Code searches all
// arguments for some flags before it parses them, so a value in a separate
// argument could be read as a flag and run a command. Users' text, and every
// value that does not match, is sent through standard input.
var token = agentconn.Token

// modelName matches a token with an optional context size, as in "opus[1m]".
var modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*(\[[A-Za-z0-9]+\])?$`)

// argv builds the command line from the options that have a flag.
func argv(opt runnel.Options, fork bool) ([]string, error) {
	args := []string{
		"--output-format=stream-json", "--verbose", "--input-format=stream-json",
		"--include-partial-messages", "--permission-prompt-tool=stdio", "--setting-sources=user",
	}
	if opt.Trusted { // the settings of an untrusted folder could run commands and send the key to another server
		args[len(args)-1] = "--setting-sources=user,project,local"
	}
	b := builder{args: args}
	switch {
	case opt.Resume == "":
		b.add("--session-id", uuid.NewString())
	case uuid.Validate(opt.Resume) != nil:
		return nil, runnel.Fail(runnel.InvalidRequest, "resume: not the id of a conversation with Claude Code")
	default:
		b.add("--resume", opt.Resume)
	}
	if fork {
		b.args = append(b.args, "--fork-session")
		b.add("--session-id", uuid.NewString())
	}
	b.match("--model", "model", opt.Model, modelName)
	b.match("--effort", "reasoningEffort", opt.ReasoningEffort, token())
	for _, t := range opt.Tools {
		b.check("tools", t, token())
	}
	if len(opt.Tools) > 0 {
		b.add("--tools", strings.Join(opt.Tools, ","))
	}
	if tools := disallowed(opt); len(tools) > 0 {
		for _, t := range tools {
			b.check("disallowed", t, token())
		}
		b.add("--disallowedTools", strings.Join(tools, ","))
	}
	b.number("--max-turns", opt.MaxTurns)
	b.number("--max-thinking-tokens", opt.MaxThinkingTokens)
	b.mode(opt)
	return b.args, b.err
}

// disallowed returns the names of the tools that the agent must not have. If
// opt names a tool that has two names, the result has both.
func disallowed(opt runnel.Options) []string {
	out := opt.AllDisallowedTools()
	var further []string
	switch {
	case opt.Delegation == runnel.DelegateNever:
		further = subagentTools
	case slices.ContainsFunc(out, func(name string) bool { return slices.Contains(subagentNames, name) }):
		further = subagentNames
	}
	for _, name := range further {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// builder collects arguments and the first error in them.
type builder struct {
	args []string
	err  error
}

func (b *builder) add(flag, value string) { b.args = append(b.args, flag+"="+value) }

func (b *builder) check(field, value string, allowed *regexp.Regexp) bool {
	err := agentconn.CheckToken(field, value, allowed)
	if b.err == nil {
		b.err = err
	}
	return err == nil
}

func (b *builder) match(flag, field, value string, allowed *regexp.Regexp) {
	if value != "" && b.check(field, value, allowed) {
		b.add(flag, value)
	}
}

func (b *builder) number(flag string, n int) {
	if n > 0 {
		b.add(flag, strconv.Itoa(n))
	}
}

func (b *builder) mode(opt runnel.Options) {
	native, err := nativeMode(opt.PermissionMode, opt.AllowBypass)
	switch {
	case err != nil && b.err == nil:
		b.err = err
	case err == nil: // always set: the user's settings may name a mode without approvals
		b.add("--permission-mode", cmp.Or(native, "default"))
	}
	if opt.AllowBypass {
		b.args = append(b.args, "--allow-dangerously-skip-permissions")
	}
}

// nativeMode is Claude Code's name for a permission mode.
func nativeMode(m runnel.PermissionMode, allowBypass bool) (string, error) {
	switch m {
	case "", runnel.ModeDefault, runnel.ModeAcceptEdits, runnel.ModePlan, runnel.ModeDontAsk:
		return string(m), nil
	case runnel.ModeBypass:
		if allowBypass {
			return "bypassPermissions", nil
		}
		return "", agentconn.ErrBypass()
	}
	return "", agentconn.NoMode(product.Name, m)
}

// setup returns the control requests to send before the first prompt, in order.
// The first is initialize.
func setup(opt runnel.Options) ([]controlRequest, error) {
	reqs := []controlRequest{{Subtype: "initialize", AppendSystemPrompt: opt.SystemPromptAppend, ForwardSubagent: true, Agents: subagents(opt)}}
	settings, err := json.Marshal(map[string]any{"permissions": permissions(opt)})
	if err != nil {
		return nil, err
	}
	reqs = append(reqs, controlRequest{Subtype: "apply_flag_settings", Settings: settings})
	if len(opt.MCPServers) > 0 {
		servers, err := mcpServers(opt.MCPServers)
		if err != nil {
			return nil, err
		}
		reqs = append(reqs, controlRequest{Subtype: "mcp_set_servers", Servers: servers})
	}
	return reqs, nil
}

// permissions returns the value of the agent's setting "permissions", which is
// sent over standard input.
func permissions(opt runnel.Options) map[string]any {
	// In the plan mode, which the model can enter by itself, a model of the API would
	// decide about calls and nobody would be asked.
	out := map[string]any{"disableAutoMode": "disable"}
	if len(opt.AddDirs) > 0 {
		out["additionalDirectories"] = opt.AddDirs
	}
	if ask := agentconn.AskTools(opt, schedulingTools, movingTools, subagentTools); len(ask) > 0 {
		out["ask"] = ask
	}
	return out
}

// subagents returns the definitions of the subagents of opt, by name. The agent
// rejects a definition without a prompt, so the description replaces a missing
// prompt.
func subagents(opt runnel.Options) map[string]subagent {
	out := make(map[string]subagent, len(opt.Subagents))
	for _, s := range opt.Subagents {
		out[s.Name] = subagent{s.Description, cmp.Or(s.Prompt, s.Description), s.Tools, s.Model}
	}
	return out
}

// mcpServers adds empty args to server definitions that have a command and no
// args. Claude Code 2.1.329 does not start such a server and reports no error.
func mcpServers(definitions json.RawMessage) (json.RawMessage, error) {
	servers, err := agentconn.MCPServers[map[string]json.RawMessage](definitions)
	if err != nil {
		return nil, err
	}
	for _, s := range servers {
		if s["command"] != nil && s["args"] == nil {
			s["args"] = json.RawMessage("[]")
		}
	}
	return json.Marshal(servers)
}

// inherited returns the names of the variables that the agent inherits from the
// server's environment: those of proc.Base, the agent's configuration, proxies,
// and the variables of Bedrock, Vertex and Foundry endpoints.
func inherited() []string {
	return append(proc.Base(),
		"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL",
		"ANTHROPIC_DEFAULT_*", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_BETAS", "ANTHROPIC_BEDROCK_*", "ANTHROPIC_VERTEX_*",
		"ANTHROPIC_FOUNDRY_*", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_*", "IS_SANDBOX",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
		"DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "MAX_THINKING_TOKENS", "BASH_DEFAULT_TIMEOUT_MS", "BASH_MAX_TIMEOUT_MS",
	)
}

// environ returns the agent's environment: the allowed variables of parent,
// this provider's variables, and the variables of opt.Env. A later group
// overrides an earlier one.
func environ(parent []string, opt runnel.Options) []string {
	allow := inherited()
	lookup := func(name string) bool {
		for _, e := range parent {
			if v, ok := strings.CutPrefix(e, name+"="); ok && v != "" && v != "0" {
				return true
			}
		}
		return false
	}
	if lookup("CLAUDE_CODE_USE_BEDROCK") {
		allow = append(allow, "AWS_*")
	}
	if lookup("CLAUDE_CODE_USE_VERTEX") {
		allow = append(allow, "GOOGLE_APPLICATION_CREDENTIALS", "CLOUD_ML_REGION", "VERTEX_REGION_*")
	}
	extra := map[string]string{
		"CLAUDE_CODE_EAGER_FLUSH": "1", // the agent completes its file before it prints a result
		"DISABLE_AUTOUPDATER":     "1", // no update while a conversation runs

		// The agent would read, without asking, each file that the arguments of a
		// skill name after an @. The model chooses them. 2.1.197 ignores this.
		"CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",

		// The model would list all other sessions of the user, in every project,
		// and send them messages, without asking. 2.1.197 has no such messages.
		// Messages to the session's own subagents remain.
		"CLAUDE_CODE_HARBOR_KITE": "0",
	}
	if opt.OneTurn { // 2.1.329 would run subagents in the background, and they would be stopped with the agent
		extra["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] = "1"
	}
	if !opt.Trusted {
		extra["CLAUDE_CODE_DISABLE_CRON"] = "1" // the scheduler sends prompts that the folder's .claude/scheduled_tasks.json contains
	}
	for _, e := range opt.Env {
		if name, value, ok := strings.Cut(e, "="); ok {
			extra[name] = value
		}
	}
	env := proc.OwnCode(proc.Environ(parent, allow, extra))
	if opt.AllowBypass {
		return env
	}
	return slices.DeleteFunc(env, func(e string) bool { // such as CLAUDE_CODE_EVEN_MORE_DANGEROUSLY_SKIP_PERMISSIONS
		name, _, _ := strings.Cut(e, "=")
		return strings.Contains(strings.ToUpper(name), "SKIP_PERMISSIONS")
	})
}

// parentEnviron returns the server's environment.
func parentEnviron() []string { return os.Environ() }
