package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
)

// showThinking is the subtype of the request that says how reasoning is shown.
// By default 2.1.330 asks for updates, which tell hardly anything, and 2.1.197
// leaves it to the model's API.
const showThinking = "set_max_thinking_tokens"

// displayRequest asks for a display of reasoning. budget is the number of tokens
// that the agent was started with, or "": 2.1.197 forgets it otherwise.
func displayRequest(d runnel.ThinkingDisplay, budget string) controlRequest {
	return controlRequest{Subtype: showThinking, MaxThinkingTokens: json.RawMessage(cmp.Or(budget, "null")), ThinkingDisplay: string(cmp.Or(d, runnel.ThinkingSummarized))}
}

// thinkingBudget returns the number of tokens with which an agent is started that
// has this environment; "" if there is none.
func thinkingBudget(opt runnel.Options, env []string) string {
	if opt.MaxThinkingTokens > 0 {
		return strconv.Itoa(opt.MaxThinkingTokens)
	}
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "MAX_THINKING_TOKENS="); ok {
			if n, err := strconv.Atoi(value); err == nil && n >= 0 {
				return value
			}
		}
	}
	return ""
}

// SetThinkingDisplay implements [runnel.ThinkingDisplayer].
func (c *conn) SetThinkingDisplay(_ context.Context, d runnel.ThinkingDisplay) error {
	_, err := c.control(displayRequest(d, c.budget))
	return err
}

// SetDisallowedTools implements [runnel.ToolDisallower]. A tool that the agent was
// started without stays away whatever the settings say.
func (c *conn) SetDisallowedTools(_ context.Context, tools []string) error {
	p := permissions(c.opt)
	opt := c.opt
	opt.Disallowed, opt.DisallowedTools = nil, tools
	p["deny"] = append([]string{}, disallowed(opt)...)
	settings, err := json.Marshal(map[string]any{"permissions": p})
	if err != nil {
		return err
	}
	if _, err := c.control(controlRequest{Subtype: "apply_flag_settings", Settings: settings}); err != nil {
		return err
	}
	_, err = c.control(controlRequest{Subtype: "get_settings"}) // which calls are denied has changed
	return err
}
