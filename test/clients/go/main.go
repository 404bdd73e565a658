// Command go holds a conversation with a server through the generated client:
// it creates a session, follows its events, sends a prompt, answers the
// approval, reads the history, and streams a turn. It exits with 1 if anything
// differs from what it expects.
//
//	go run . URL TOKEN DIRECTORY
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/test/clients/go/client"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: go run . URL TOKEN DIRECTORY")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	authorized := client.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+args[1])
		return nil
	})
	api, err := client.NewClientWithResponses(strings.TrimSuffix(args[0], "/"), authorized)
	if err != nil {
		return err
	}
	c := &conversation{api: api, dir: args[2]}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"create a session", c.create}, {"send a prompt and follow its turn", c.prompt}, {"read the history", c.history},
		{"stream a turn", c.turn}, {"list sessions", c.list}, {"meet an error", c.refused},
	} {
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	fmt.Println("the conversation went well")
	return nil
}

// A conversation is a conversation with the scripted agent.
type conversation struct {
	api     *client.ClientWithResponses
	dir     string
	session string
}

func (c *conversation) create(ctx context.Context) error {
	options := client.Options{Config: &map[string]string{"pace": "fast"}}
	res, err := c.api.CreateSessionWithResponse(ctx, &client.CreateSessionParams{}, client.CreateSessionJSONRequestBody{CliType: "script", ProjectDir: c.dir, Options: &options})
	if err != nil {
		return err
	}
	if res.JSON201 == nil {
		return fmt.Errorf("%s: %s", res.Status(), res.Body)
	}
	c.session = res.JSON201.SessionId
	return nil
}

// prompt sends a prompt, follows the session's events, and answers the approval
// in them.
func (c *conversation) prompt(ctx context.Context) error {
	stream, err := c.api.FollowEvents(ctx, c.session, &client.FollowEventsParams{})
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK {
		return errors.New(stream.Status)
	}
	text := "approve"
	sent, err := c.api.SendPromptWithResponse(ctx, c.session, &client.SendPromptParams{}, client.SendPromptJSONRequestBody{Content: &text})
	if err != nil {
		return err
	}
	if sent.JSON202 == nil {
		return fmt.Errorf("%s: %s", sent.Status(), sent.Body)
	}
	asked, first := 0, true
	err = frames(stream.Body, func(data json.RawMessage) (bool, error) {
		var frame client.SessionFrame
		if err := json.Unmarshal(data, &frame); err != nil {
			return false, err
		}
		value, err := frame.ValueByDiscriminator()
		if err != nil {
			return false, err
		}
		switch f := value.(type) {
		case client.StreamOpenFrame:
			if !first || f.Data.SessionId != c.session {
				return false, fmt.Errorf("got %+v", f.Data)
			}
		case client.EventFrame:
			ev, err := f.Data.ValueByDiscriminator()
			if err != nil {
				return false, err
			}
			switch ev := ev.(type) {
			case client.ApprovalRequestedEvent:
				asked++
				return false, c.decide(ctx, ev.Payload.Approval)
			case client.ResponseErrorEvent:
				return false, fmt.Errorf("the turn failed: %+v", ev.Payload.Error)
			case client.ResponseDoneEvent:
				return *ev.TurnId == sent.JSON202.TurnId && ev.Payload.Status == client.TurnStatusCompleted, nil
			}
		default:
			return false, fmt.Errorf("got a %T", f)
		}
		first = false
		return false, nil
	})
	if err == nil && asked != 1 {
		err = fmt.Errorf("the agent asked %d times", asked)
	}
	return err
}

func (c *conversation) decide(ctx context.Context, asked client.Approval) error {
	for _, choice := range asked.Choices {
		if choice.Kind != client.ChoiceKindAllowOnce {
			continue
		}
		res, err := c.api.DecideApprovalWithResponse(ctx, c.session, asked.Id,
			client.DecideApprovalJSONRequestBody{Choice: choice.Id, ArgumentsDigest: asked.ArgumentsDigest})
		if err == nil && res.JSON200 == nil {
			err = fmt.Errorf("%s: %s", res.Status(), res.Body)
		}
		return err
	}
	return fmt.Errorf("cannot be allowed once: %+v", asked)
}

// history checks that the history has the prompt, a tool call with its output,
// and an answer.
func (c *conversation) history(ctx context.Context) error {
	res, err := c.api.ListItemsWithResponse(ctx, c.session, &client.ListItemsParams{})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return fmt.Errorf("%s: %s", res.Status(), res.Body)
	}
	seen := make(map[string]int)
	for _, entry := range res.JSON200.Items {
		value, err := entry.ValueByDiscriminator()
		if err != nil {
			return err
		}
		up, ok := value.(client.SessionUpsertEntry)
		if !ok {
			continue
		}
		item, err := up.Payload.ValueByDiscriminator()
		if err != nil {
			return err
		}
		switch item := item.(type) {
		case client.MessageUpsert:
			seen[string(item.Message.Origin)]++
		case client.ToolCallUpsert:
			if item.ToolCall.ToolOutput == nil {
				return fmt.Errorf("%s has no output", item.ToolCall.ToolName)
			}
			seen["tool"]++
		}
	}
	if seen["user"] != 1 || seen["agent"] == 0 || seen["tool"] == 0 {
		return fmt.Errorf("got %v", seen)
	}
	return nil
}

// turn sends a prompt by a request whose response is the stream of the turn.
func (c *conversation) turn(ctx context.Context) error {
	body := client.StreamTurnJSONRequestBody{SessionId: c.session}
	text := "text"
	body.Message = &text
	res, err := c.api.StreamTurn(ctx, &client.StreamTurnParams{}, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	var deltas, whole strings.Builder
	var names []string
	err = frames(res.Body, func(data json.RawMessage) (bool, error) {
		var frame client.TurnFrame
		if err := json.Unmarshal(data, &frame); err != nil {
			return false, err
		}
		value, err := frame.ValueByDiscriminator()
		if err != nil {
			return false, err
		}
		name, _ := frame.Discriminator()
		names = append(names, name)
		switch f := value.(type) {
		case client.ChatDeltaFrame:
			deltas.WriteString(f.Data.Text)
		case client.ChatCompleteFrame:
			whole.WriteString(f.Data.Text)
		case client.ProcessExitFrame:
			return true, nil
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if names[0] != "session:init" || deltas.Len() == 0 || deltas.String() != whole.String() {
		return fmt.Errorf("got %v, with deltas %q of %q", names, deltas.String(), whole.String())
	}
	return nil
}

func (c *conversation) list(ctx context.Context) error {
	all := true
	res, err := c.api.ListSessionsWithResponse(ctx, &client.ListSessionsParams{ProjectDir: &c.dir, All: &all})
	if err != nil {
		return err
	}
	if res.JSON200 == nil || len(res.JSON200.Sessions) != 1 || res.JSON200.Sessions[0].State != client.SessionStateOpen {
		return fmt.Errorf("%s: %s", res.Status(), res.Body)
	}
	return nil
}

func (c *conversation) refused(ctx context.Context) error {
	res, err := c.api.SessionStatusWithResponse(ctx, "nobody")
	if err != nil {
		return err
	}
	if res.JSON404 == nil || res.JSON404.Error.Type != client.ErrorTypeSESSIONNOTFOUND {
		return fmt.Errorf("%s: %s", res.Status(), res.Body)
	}
	return nil
}
