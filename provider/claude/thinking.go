package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
)

// showThinking is the subtype of the request that sets how reasoning is shown.
// By default 2.1.330 requests short updates with little content, and 2.1.197
// uses the default of the model's API.
const showThinking = "set_max_thinking_tokens"

// displayRequest returns the request that sets the display of reasoning. budget
// is the number of tokens with which the agent was started, or "". The request
// repeats the budget, because 2.1.197 resets it otherwise.
func displayRequest(d runnel.ThinkingDisplay, budget string) controlRequest {
	return controlRequest{Subtype: showThinking, MaxThinkingTokens: json.RawMessage(cmp.Or(budget, "null")), ThinkingDisplay: string(cmp.Or(d, runnel.ThinkingSummarized))}
}

// thinkingBudget returns the number of thinking tokens that opt or the
// environment sets for an agent; "" if neither does.
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

// SetDisallowedTools implements [runnel.ToolDisallower]. It cannot allow a tool
// that was disallowed when the agent was started.
func (c *conn) SetDisallowedTools(_ context.Context, tools []string) error {
	p := permissions(c.opt)
	opt := c.opt
	opt.ServerDisallowedTools, opt.DisallowedTools = nil, tools
	p["deny"] = append([]string{}, disallowed(opt)...)
	settings, err := json.Marshal(map[string]any{"permissions": p})
	if err != nil {
		return err
	}
	if _, err := c.control(controlRequest{Subtype: "apply_flag_settings", Settings: settings}); err != nil {
		return err
	}
	_, err = c.control(controlRequest{Subtype: "get_settings"}) // the set of denied calls has changed
	return err
}
