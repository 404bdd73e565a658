// Package script is a provider that plays a script instead of running an agent.
// It serves demonstrations and tests.
//
// A prompt that begins with "{" is played as a [Script] in JSON. Otherwise the
// first word of the prompt can name a built-in script (see [Names]). Any other
// prompt plays the script "demo".
package script

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"io/fs"
	"path"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Name is the name of the provider.
const Name = "script"

// A Script is the scripted agent's reaction to a prompt.
type Script struct {
	Model string `json:"model,omitzero"` // Default: "scripted". A model in the session's options has priority
	Steps []Step `json:"steps"`
}

// A Step is one action of the scripted agent. Of the fields from Text to Hang,
// exactly one is set.
type Step struct {
	Text      string                `json:"text,omitzero"`      // a message
	Reasoning string                `json:"reasoning,omitzero"` // reasoning, streamed like Text
	Tool      *Tool                 `json:"tool,omitzero"`
	Tools     []Tool                `json:"tools,omitzero"` // in parallel: all start before any ends
	Plan      []event.PlanEntry     `json:"plan,omitzero"`
	Notice    *event.Notice         `json:"notice,omitzero"`
	Usage     *event.UsageUpdated   `json:"usage,omitzero"`
	Session   *event.SessionUpdated `json:"session,omitzero"`
	Fail      *event.Fault          `json:"fail,omitzero"`  // ends the turn as failed
	Crash     bool                  `json:"crash,omitzero"` // the agent crashes
	Hang      bool                  `json:"hang,omitzero"`  // the agent does nothing more until the turn is interrupted

	Error   *event.Fault `json:"error,omitzero"`   // ends Text or Reasoning as failed; the turn continues
	Repeat  int          `json:"repeat,omitzero"`  // how many times Text or Reasoning is repeated. Default: 1
	Rate    float64      `json:"rate,omitzero"`    // words per second of Text, Reasoning and arguments. Default: no delay
	PauseMS int          `json:"pauseMs,omitzero"` // pause before the step, in milliseconds
}

// A Tool is a tool call with its output.
type Tool struct {
	Name      string          `json:"name"`
	Kind      event.ToolKind  `json:"kind,omitzero"`
	Title     string          `json:"title,omitzero"`
	Arguments json.RawMessage `json:"arguments,omitzero"`
	Output    string          `json:"output,omitzero"`
	Pieces    []string        `json:"pieces,omitzero"`  // parts of the output that are streamed after Output
	PieceMS   int             `json:"pieceMs,omitzero"` // pause before each piece, in milliseconds
	IsError   bool            `json:"isError,omitzero"`
	ExitCode  *int            `json:"exitCode,omitzero"`
	Changes   []event.Change  `json:"changes,omitzero"`
	Ask       *Ask            `json:"ask,omitzero"`     // the approval before the call
	TakesMS   int             `json:"takesMs,omitzero"` // pause before the subagent's steps and the output, in milliseconds
	Steps     []Step          `json:"steps,omitzero"`   // steps of the subagent that the tool starts
}

// An Ask is an approval request. For a question or a form, the answer becomes
// the tool's output.
type Ask struct {
	Kind      event.ApprovalKind `json:"kind,omitzero"` // Default: tool
	Title     string             `json:"title,omitzero"`
	Why       string             `json:"why,omitzero"`
	Arguments json.RawMessage    `json:"arguments,omitzero"` // Default: the tool's arguments
	Choices   []event.Choice     `json:"choices,omitzero"`   // Default: the usual choices for Kind
	Withdraw  bool               `json:"withdraw,omitzero"`  // the agent withdraws the request at once
	Editable  bool               `json:"editable,omitzero"`  // the decision may change the arguments; always true for questions and forms
}

//go:embed scripts/*.json
var builtin embed.FS

// Names returns the names of the built-in scripts.
func Names() []string {
	files, _ := fs.Glob(builtin, "scripts/*.json")
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(path.Base(f), ".json"))
	}
	return names
}

// Find returns the script for a prompt, as the package documentation describes.
// It fails with [runnel.InvalidRequest] if a prompt in JSON is not a script.
func Find(prompt string) (Script, error) {
	if text := strings.TrimSpace(prompt); strings.HasPrefix(text, "{") {
		return decode([]byte(text))
	}
	name := "demo"
	if words := strings.Fields(prompt); len(words) > 0 {
		for _, n := range Names() {
			if strings.EqualFold(words[0], n) {
				name = n
			}
		}
	}
	data, err := builtin.ReadFile("scripts/" + name + ".json")
	if err != nil {
		return Script{}, err
	}
	return decode(data)
}

func decode(data []byte) (Script, error) {
	var s Script
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return s, runnel.Fail(runnel.InvalidRequest, "prompt: not a valid script; see the package documentation of provider/script for the fields", err)
	}
	return s, nil
}

// Provider plays scripts. The zero value is ready to use.
type Provider struct {
	// Script is played for every prompt if it has steps. Then the provider's
	// settings do not exist; the script can send its own.
	Script Script
}

// New returns a provider that chooses the script by the prompt.
func New() *Provider { return new(Provider) }

// Name implements [runnel.Provider].
func (p *Provider) Name() string { return Name }

// Open implements [runnel.Provider]. It fails with [runnel.InvalidRequest] for
// an unknown setting or value. For a resumed conversation it does not check
// settings, because an earlier script may have sent others.
func (p *Provider) Open(_ context.Context, opt runnel.Options) (runnel.Conn, error) {
	for id, value := range opt.Config {
		if _, err := offered(p.Takes().Settings, id, value); err != nil && opt.Resume == "" {
			return nil, err
		}
	}
	return newConn(p.Script, opt), nil
}

// Prototype implements [runnel.ConnPrototype].
func (p *Provider) Prototype() runnel.Conn { return (*conn)(nil) }

// Probe implements [runnel.Prober].
func (p *Provider) Probe(context.Context) runnel.Installation {
	yes := true
	in := runnel.Installation{
		Installed: true, LoggedIn: &yes, Version: "built in",
		Models: []runnel.Model{{ID: defaultModel, Name: "Scripted", Description: "plays a script without a model"}},
		Modes:  []string{string(runnel.ModeDefault), string(runnel.ModeAcceptEdits), string(runnel.ModeDontAsk), string(runnel.ModeBypass)},
	}
	if len(p.Script.Steps) == 0 {
		in.Config = settings(nil)
	}
	return in
}

// Takes implements [runnel.OptionTaker].
func (p *Provider) Takes() runnel.Takes {
	t := runnel.Takes{Resume: true, Efforts: []string{"low", "medium", "high"}, Config: true}
	if len(p.Script.Steps) == 0 {
		t.Settings = settings(nil)
	}
	return t
}

// Extra implements [runnel.Capable].
func (p *Provider) Extra() []runnel.Capability {
	return []runnel.Capability{runnel.CapToolsStructured, runnel.CapToolsResults, runnel.CapSessionResume}
}
