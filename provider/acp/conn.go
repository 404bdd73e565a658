package acp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// conn is one conversation with one process.
type conn struct {
	*agentconn.Conn
	tr     *translator // within Do
	bypass bool        // Options.AllowBypass
	dir    string      // Options.Dir
}

// encode makes a line of a message.
func encode(m jsonrpc.Message, err error) (json.RawMessage, error) {
	var line []byte
	if err == nil {
		line, err = jsonrpc.Encode(m, true)
	}
	if err != nil {
		return nil, runnel.Fail(runnel.Internal, "a message to the agent could not be made", err)
	}
	return line, nil
}

// isReady fails if the connection before this one ended in its handshake.
func (c *conn) isReady() error {
	if c.tr.Session == "" || c.tr.load != nil || len(c.tr.asked) > 0 {
		return errors.New("it was still being started")
	}
	return nil
}

// Prompt implements [runnel.Conn].
func (c *conn) Prompt(_ context.Context, turn string, in runnel.Input) error {
	return c.Conn.Prompt(in, func() (any, error) {
		if err := c.mayPrompt(); err != nil {
			return nil, err
		}
		content, err := c.tr.content(in, c.dir)
		if err != nil {
			return nil, err
		}
		return encode(jsonrpc.NewRequest(jsonrpc.String(promptID+turn), methodPrompt, struct {
			SessionID string `json:"sessionId"`
			Prompt    []any  `json:"prompt"`
		}{c.tr.Session, content}))
	})
}

// mayPrompt refuses a prompt where nobody would be asked. An agent may begin so,
// by its user's settings, and may go there of its own accord.
func (c *conn) mayPrompt() error {
	if option := c.tr.q.bypassing(c.tr.Config); option != "" && !c.bypass {
		return runnel.Fail(runnel.InvalidRequest, c.tr.agent.Name+" would run tools without asking, which is not allowed here. Choose another value of its option: "+oneLine(option, 100))
	}
	return nil
}

// content makes blocks of a prompt.
func (t *translator) content(in runnel.Input, dir string) ([]any, error) {
	var out []any
	switch literal := t.q.live.literal; {
	case in.Text == "" && len(in.Attachments) > 0:
	case literal != nil:
		out = literal(in.Text, dir, t.isCommand)
	default:
		out = append(out, textBlock(in.Text))
	}
	for _, a := range in.Attachments {
		uri := (&url.URL{Scheme: "file", Path: "/" + a.Name}).String()
		resource := func(field, content string) map[string]any {
			return map[string]any{"type": "resource", "resource": map[string]any{"uri": uri, "mimeType": a.MediaType, field: content}}
		}
		data := base64.StdEncoding.EncodeToString(a.Data)
		isImage := len(a.MediaType) > 6 && a.MediaType[:6] == "image/"
		switch {
		case len(a.Data) == 0 && t.Caps.Embedded:
			out = append(out, resource("text", a.Text))
		case len(a.Data) == 0:
			out = append(out, map[string]any{"type": "text", "text": "\n\n" + a.Name + ":\n" + a.Text})
		case isImage && t.Caps.Image:
			out = append(out, map[string]any{"type": "image", "mimeType": a.MediaType, "data": data, "uri": uri})
		case !isImage && t.Caps.Embedded && !t.q.live.noBlobs:
			out = append(out, resource("blob", data))
		default:
			return nil, runnel.Fail(runnel.AttachmentFailure, t.agent.Name+" does not take attachments of the type "+oneLine(a.MediaType, 100)+". Send it without "+oneLine(a.Name, 100)+".")
		}
	}
	return out, nil
}

func textBlock(text string) any { return map[string]any{"type": "text", "text": text} }

// isCommand reports whether the agent offers a command of this name.
func (t *translator) isCommand(name string) bool {
	return slices.ContainsFunc(t.Commands, func(c event.AgentCommand) bool { return c.Name == name })
}

// Interrupt implements [runnel.Conn]. Questions that are open are answered as
// the protocol wants it.
func (c *conn) Interrupt(context.Context) error {
	return c.Do(func(send func(any) error) error {
		if c.tr.turn == nil {
			return nil
		}
		if err := c.cancel(send); err != nil {
			return err
		}
		for _, id := range c.tr.Waiting() {
			line, err := encode(c.tr.approvals[id].cancelled(), nil)
			if err != nil {
				return err
			}
			if err := send(line); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *conn) cancel(send func(any) error) error {
	line, err := encode(jsonrpc.NewNotification(methodCancel, map[string]any{"sessionId": c.tr.Session}))
	if err != nil {
		return err
	}
	return send(line)
}

// Decide implements [runnel.Conn].
func (c *conn) Decide(_ context.Context, approval string, d runnel.Decision) error {
	return c.Do(func(send func(any) error) error {
		m, stop, err := c.tr.answerTo(approval, d)
		if err != nil {
			return err
		}
		line, err := encode(m, nil)
		if err != nil {
			return err
		}
		if err := send(line); err != nil || !stop {
			return err
		}
		return c.cancel(send)
	})
}

// SetModel implements [runnel.ModelSetter].
func (c *conn) SetModel(_ context.Context, model string) error {
	return c.apply(setting{"model", model})
}

// SetReasoningEffort implements [runnel.EffortSetter].
func (c *conn) SetReasoningEffort(_ context.Context, effort string) error {
	return c.apply(setting{"effort", effort})
}

// SetConfig implements [runnel.ConfigSetter].
func (c *conn) SetConfig(_ context.Context, id, value string) error {
	return c.apply(setting{id, value})
}

// SetPermissionMode implements [runnel.ModeSetter].
func (c *conn) SetPermissionMode(_ context.Context, mode runnel.PermissionMode) error {
	if mode == "" {
		mode = runnel.ModeDefault
	}
	if mode == runnel.ModeBypass && !c.bypass {
		return runnel.Fail(runnel.InvalidRequest, "permissionMode: bypass is not allowed here")
	}
	want := c.tr.q.startup.modes[mode]
	if want == nil {
		return noMode(c.tr.agent)
	}
	for _, s := range want {
		if err := c.apply(s); err != nil {
			return err
		}
	}
	return nil
}

func noMode(a agentconn.Agent) error {
	return runnel.Fail(runnel.InvalidRequest, "permissionMode: "+a.Name+" has no such mode")
}

// apply asks the agent to change a setting.
func (c *conn) apply(s setting) error {
	return c.Do(func(send func(any) error) error {
		method, params, err := c.tr.change(s, c.bypass)
		if err != nil || method == "" {
			return err
		}
		id, err := c.tr.peer.NextID()
		if err != nil {
			return runnel.Fail(runnel.AgentStalled, c.tr.agent.Name+" does not answer. Cancel, or end the session.", err)
		}
		line, err := encode(jsonrpc.NewRequest(id, method, params))
		if err != nil {
			return err
		}
		return send(line)
	})
}

// Close implements [runnel.Conn]. A turn that runs is interrupted first: then
// the agent ends its tools itself and keeps what it has.
func (c *conn) Close() error {
	_ = c.Interrupt(context.Background()) // it may be gone already
	return c.Conn.Close()
}

var _ interface {
	runnel.Conn
	runnel.ModelSetter
	runnel.ModeSetter
	runnel.EffortSetter
	runnel.ConfigSetter
	runnel.Detacher
	runnel.Exiter
} = (*conn)(nil)
