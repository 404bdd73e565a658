// Package codex runs Codex through its app-server.
package codex

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
)

// product names the agent in messages to users.
var product = agentconn.Agent{Name: "Codex", Install: installCommand, Try: "codex --version"}

// Provider runs Codex. The zero value runs the program "codex" from PATH.
//
// One app-server could serve many conversations. Provider starts one app-server
// for each conversation nevertheless, at a cost of about 90 MB. Supervision,
// takeover and stopping work on processes, and a process that fails ends one
// conversation only.
type Provider struct {
	program agentconn.Program
}

// New returns a Provider.
func New() *Provider { return &Provider{} }

// WithProgram implements [runnel.Programmable].
func (p *Provider) WithProgram(command, env []string) runnel.Provider {
	return &Provider{p.program.With(command, env)}
}

// WithLimits implements [runnel.Limiter].
func (p *Provider) WithLimits(l runnel.Limits) runnel.Provider {
	return &Provider{p.program.WithLimits(l)}
}

// Name implements [runnel.Provider].
func (*Provider) Name() string { return providerID }

// DisplayName returns "Codex".
func (*Provider) DisplayName() string { return "Codex" }

// Prototype implements [runnel.ConnPrototype].
func (*Provider) Prototype() runnel.Conn { return (*conn)(nil) }

// Extra implements [runnel.Capable].
func (*Provider) Extra() []runnel.Capability {
	return append([]runnel.Capability{
		runnel.CapToolsStructured, runnel.CapToolsResults, runnel.CapSessionResume, runnel.CapAddDirs, runnel.CapExternalSandbox,
	}, runnel.MCPCapabilities()...)
}

// efforts are the reasoning efforts that Codex 0.169.0 accepts. A model
// supports some of them.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"}

// Takes implements [runnel.OptionTaker].
func (*Provider) Takes() runnel.Takes {
	return runnel.Takes{
		AddDirs: true, SystemPromptAppend: true, MCPServers: true, Resume: true, APIKey: true, Sandbox: true, Broker: true, ReportsTokens: true,
		Efforts: efforts, Config: true, Settings: declared(),
		SubagentTools: []string{"spawn_agent", "send_message", "followup_task"}, SubagentKey: "agent_type", Delegations: []runnel.Delegation{runnel.DelegateNever},
	}
}

// Open implements [runnel.Provider].
func (p *Provider) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	method := methodStart
	if opt.Resume != "" {
		method = methodResume
	}
	return p.open(ctx, opt, method)
}

// Fork implements [runnel.Forker].
func (p *Provider) Fork(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	if err := agentconn.CheckFork(opt); err != nil {
		return nil, err
	}
	return p.open(ctx, opt, methodFork)
}

func (p *Provider) open(ctx context.Context, opt runnel.Options, method string) (runnel.Conn, error) {
	opt = p.program.Configured(opt)
	params, err := threadParams(opt, method)
	if err != nil {
		return nil, err
	}
	path, args, err := p.executable(opt)
	if err != nil {
		return nil, err
	}
	login, err := p.login(opt)
	if err != nil {
		return nil, err
	}
	defer login.broker.CloseUnused()
	path, managed := native(path)
	env := append(login.environ(environ(os.Environ(), opt)), managed...)
	if !opt.Trusted {
		pinGit(ctx, params, env, opt)
	}
	args, opt.Tap = slices.Concat(args, noGoals, login.args()), login.tap(opt.Tap)
	if opt.Sandbox.IsOn() {
		args = append(args, quiet()...)
	} else if err := agentconn.ClaimTemp(env, product.Name, tempPrefix); err != nil {
		return nil, err
	}
	tr := newTranslator()
	shell, err := agentconn.Start(ctx, agentconn.Command{Path: path, Args: args, Env: env, Mark: mark, Elsewhere: true, Above: []string{".codex", ".agents", "AGENTS.md", "AGENTS.override.md"}, Enclosure: enclosure(env), Broker: login.broker}, product, tr, opt)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: shell, tr: tr, opt: opt, home: codexHome(env)}
	if err := c.handshake(ctx, method, params, login); err != nil {
		return nil, err
	}
	return c, nil
}

// mark is the environment variable by which the supervisor finds the processes
// that it started.
const mark = "CODEX_" + proc.MarkSuffix

// noGoals are arguments by which Codex offers the model no tools for goals. The
// model can set a goal without asking, and Codex 0.169.0 then begins turns by
// itself, one after the other, until it is interrupted.
var noGoals = []string{"-c", "features.goals=false"}

// tempPrefix is the name, without the number of the user, of a folder for temporary
// files in which Codex writes through links before each command that it runs in its
// own sandbox (0.169.0, Linux).
const tempPrefix = "codex-bwrap-synthetic-mount-targets-"

// Adopt implements [runnel.Adopter].
func (p *Provider) Adopt(_ context.Context, opt runnel.Options) (runnel.Conn, runnel.Backlog, error) {
	opt = p.program.Configured(opt)
	env := environ(os.Environ(), opt)
	tr := newTranslator()
	shell, back, err := agentconn.Adopt(opt, env, product, tr, p.credential(), tr.isReady)
	if err != nil {
		return nil, runnel.Backlog{}, err
	}
	return &conn{Conn: shell, tr: tr, opt: opt, home: codexHome(env)}, back, nil
}

// executable returns the program to run and all of its arguments. Text from API
// clients never becomes an argument.
func (p *Provider) executable(opt runnel.Options) (path string, args []string, err error) {
	path, args, err = p.program.Find(opt, "codex", product)
	return path, append(args, "app-server"), err
}

// homeOf returns the agent's folder under the configured environment of a
// program.
func homeOf(p agentconn.Program) string { return codexHome(append(os.Environ(), p.Env...)) }

// threadParams returns the parameters of the request method that opens a
// conversation. The user's own configuration decides every setting that the
// parameters omit.
func threadParams(opt runnel.Options, method string) (map[string]any, error) {
	if err := firstError(check("model", opt.Model), check("reasoningEffort", opt.ReasoningEffort), check("resume", opt.Resume)); err != nil {
		return nil, err
	}
	m, err := modeOf(opt.PermissionMode, opt.AllowBypass)
	if err != nil {
		return nil, err
	}
	config, err := threadConfig(opt)
	if err != nil {
		return nil, err
	}
	if m = m.enclosed(opt.Sandbox); m.sandbox == external {
		m.sandbox = workspace // the request has no name for it; conn.begin sets it
	}
	params := map[string]any{"approvalPolicy": m.approval, "sandbox": m.sandbox, "approvalsReviewer": "user", "config": config}
	if params["cwd"], err = workDir(opt.Dir); err != nil {
		return nil, err
	}
	if opt.Model != "" {
		params["model"] = opt.Model
	}
	if opt.SystemPromptAppend != "" {
		params["developerInstructions"] = opt.SystemPromptAppend
	}
	if method != methodStart {
		params["threadId"], params["excludeTurns"] = opt.Resume, true
	}
	for id, value := range opt.Config {
		if id == optionSandbox && opt.Sandbox.IsOn() {
			return nil, errTwoSandboxes(opt.Sandbox)
		}
		if err := applyOption(params, config, id, value, opt.AllowBypass); err != nil {
			return nil, err
		}
	}
	return params, nil
}

// threadConfig returns the settings that thread/start has no parameter for.
// They are passed as the "config" parameter.
func threadConfig(opt runnel.Options) (map[string]any, error) {
	config := map[string]any{}
	if opt.ReasoningEffort != "" {
		config["model_reasoning_effort"] = opt.ReasoningEffort
	}
	if len(opt.AddDirs) > 0 {
		config["sandbox_workspace_write"] = map[string]any{"writable_roots": opt.AddDirs}
	}
	if len(opt.MCPServers) > 0 {
		servers, err := mcpServers(opt.MCPServers)
		if err != nil {
			return nil, err
		}
		config["mcp_servers"] = servers
	}
	if opt.Delegation == runnel.DelegateNever {
		config["agents"] = map[string]any{"enabled": false}
	}
	config["projects"] = trust(opt)
	return config, nil
}

// pinGit passes the pinned git settings to the commands that the agent runs.
// The agent's environment already has them. The user's configuration may
// however remove variables such as GIT_CONFIG_KEY_0 from the environment of
// commands, and git fails if one of the set is missing.
func pinGit(ctx context.Context, params map[string]any, env []string, opt runnel.Options) {
	config := params["config"].(map[string]any) // set by threadParams
	config["shell_environment_policy"] = map[string]any{"set": agentconn.GitPins(ctx, env, opt)}
}

// mcpServers converts definitions of MCP servers to Codex's form. Codex has no
// "type" field and calls the headers "http_headers".
func mcpServers(given json.RawMessage) (map[string]map[string]json.RawMessage, error) {
	servers, err := agentconn.MCPServers[map[string]json.RawMessage](given)
	if err != nil {
		return nil, err
	}
	for _, s := range servers {
		delete(s, "type")
		if h := s["headers"]; h != nil && s["http_headers"] == nil {
			s["http_headers"] = h
			delete(s, "headers")
		}
	}
	return servers, nil
}

// workDir returns the directory in which the agent works: dir, or the current
// directory. The agent's process may be started in a different directory.
func workDir(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", runnel.Fail(runnel.WorkingRootInaccessible, "the current directory is not accessible", err)
	}
	return dir, nil
}

func projectDir(dir string) string {
	if dir == "" {
		dir, _ = os.Getwd() // an empty dir means that there is no project
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// applyOption sets the option id to value in params or config. It fails if the
// value is not allowed.
func applyOption(params, config map[string]any, id, value string, allowBypass bool) error {
	if err := checkOption(id, value, allowBypass); err != nil {
		return err
	}
	switch id {
	case optionModel:
		params["model"] = value
	case optionEffort:
		config["model_reasoning_effort"] = value
	case optionApproval:
		params["approvalPolicy"] = value
	case optionSandbox:
		params["sandbox"] = value
	}
	return nil
}

// checkOption fails with InvalidRequest if the option id does not exist or may
// not have the value.
func checkOption(id, value string, allowBypass bool) error {
	for _, o := range new(settings).options() {
		if o.ID != id || id == optionModel {
			continue
		}
		switch {
		case value == fullAccess && !allowBypass:
			return runnel.Fail(runnel.InvalidRequest, "config: "+fullAccess+" is not allowed here")
		case value == "" || !o.Allows(value):
			return runnel.NoValue("config."+id, value, o)
		}
		return nil
	}
	switch {
	case id != optionModel && id != optionEffort:
		return runnel.NoSetting(product.Name, id, append(new(settings).options(), event.ConfigOption{ID: optionEffort}))
	case value == "":
		return runnel.Fail(runnel.InvalidRequest, "config."+id+": is blank; leave it out for the agent's default")
	}
	return check("config."+id, value)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// inherited returns the names of the variables that the agent's process
// inherits from the server's environment, in addition to proc.Base.
func inherited() []string {
	return append(proc.Base(),
		"CODEX_*", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "AZURE_OPENAI_*",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"SSL_CERT_FILE", "RUST_LOG",
	)
}

// environ returns the agent's environment: the allowed variables of parent,
// then the variables of opt.Env. The allowed variables include those that hold
// the API keys of model providers; the user's configuration names them.
func environ(parent []string, opt runnel.Options) []string {
	extra := make(map[string]string)
	for _, e := range opt.Env {
		if name, value, ok := strings.Cut(e, "="); ok {
			extra[name] = value
		}
	}
	allow := append(inherited(), keyVariables(codexHome(append(slices.Clone(parent), opt.Env...)))...)
	return proc.OwnCode(proc.Environ(parent, allow, extra))
}

// envKey matches a setting of the configuration that names the variable of an
// API key.
var envKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*env_key\s*=\s*["']([A-Za-z_][A-Za-z0-9_]{0,99})["']`)
})

// maxConfig bounds the size of a configuration file that is read, in bytes.
const maxConfig = 1 << 20

func keyVariables(home string) (names []string) {
	for _, m := range envKey().FindAllSubmatch(userConfig(home), 50) {
		names = append(names, string(m[1]))
	}
	return names
}

// userConfig returns the content of the agent's configuration file. It returns
// nil if the file cannot be read or is larger than maxConfig.
func userConfig(home string) []byte {
	return agentconn.ReadPlain(filepath.Join(home, "config.toml"), maxConfig)
}

// codexHome returns the folder in which the agent keeps its configuration and
// its conversations, "" if env does not determine one.
func codexHome(env []string) string {
	vars := make(map[string]string)
	for _, e := range env { // the last value of a name counts
		if name, value, ok := strings.Cut(e, "="); ok {
			vars[name] = value
		}
	}
	switch {
	case vars["CODEX_HOME"] != "":
		return vars["CODEX_HOME"]
	case vars["HOME"] != "":
		return filepath.Join(vars["HOME"], ".codex")
	case vars["USERPROFILE"] != "":
		return filepath.Join(vars["USERPROFILE"], ".codex")
	}
	return ""
}
