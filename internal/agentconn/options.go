package agentconn

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
)

// ErrStarting is what the isReady function of [Adopt] returns if the earlier
// server process ended during the handshake.
var ErrStarting = errors.New("the agent was still starting")

// ErrBypass returns the error for the permission mode bypass if the options do
// not allow it.
func ErrBypass() error {
	return runnel.Fail(runnel.InvalidRequest, "permissionMode: bypass is not allowed here")
}

// CheckFork fails with InvalidRequest if the options do not name a conversation
// to fork.
func CheckFork(opt runnel.Options) error {
	if opt.Resume == "" {
		return runnel.Fail(runnel.InvalidRequest, "resume: missing; name the conversation to fork")
	}
	return nil
}

// Token returns a pattern that matches a valid name of a model, an effort or a
// tool.
var Token = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$`) })

// maxToken bounds a value that CheckToken accepts, in bytes.
const maxToken = 200

// CheckToken fails with InvalidRequest if an option's value does not match
// allowed or is longer than maxToken. allowed is the pattern of [Token], or one
// that accepts slightly more.
func CheckToken(field, value string, allowed *regexp.Regexp) error {
	if len(value) <= maxToken && allowed.MatchString(value) {
		return nil
	}
	return runnel.Fail(runnel.InvalidRequest, field+": may hold letters, digits and . _ : / @ - only, and must begin with a letter or digit")
}

// NoEffort returns the error for a reasoning effort that a model does not have.
func NoEffort(model, effort string, has []string) error {
	want := "it has none: leave the effort out"
	if len(has) > 0 {
		want = "want one of " + text.OneLine(strings.Join(has, ", "), 300)
	}
	return runnel.Fail(runnel.InvalidRequest, fmt.Sprintf("reasoningEffort: the model %s has no effort %q; %s", text.OneLine(model, 200), text.OneLine(effort, 100), want))
}

// NoMode returns the error for a permission mode that an agent does not have.
func NoMode(agent string, mode runnel.PermissionMode) error {
	return runnel.Fail(runnel.InvalidRequest, fmt.Sprintf("permissionMode: %s has no mode %q", agent, text.OneLine(string(mode), 100)))
}

// MCPServers decodes the mcpServers of the options: definitions of servers by
// name. It fails with InvalidRequest if they are not a JSON object whose values
// decode as Definition.
func MCPServers[Definition any](given json.RawMessage) (map[string]Definition, error) {
	var servers map[string]Definition
	if err := json.Unmarshal(given, &servers); err != nil || servers == nil {
		return nil, runnel.Fail(runnel.InvalidRequest, "mcpServers: not a JSON object of servers by name", err)
	}
	return servers, nil
}
