// Package script is a provider that plays a script instead of running an agent,
// so that everything else can be seen, demonstrated and tested without one.
//
// A prompt that is a JSON object is played as a [Script]. Otherwise the first
// word of the prompt names one of the built-in scripts (see [Names]); any other
// prompt plays "demo".
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

// Name is the provider's name.
const Name = "script"

// A Script is what the agent does about a prompt.
type Script struct {
	Model string `json:"model,omitzero"`
	Steps []Step `json:"steps"`
}

// A Step is one thing that happens. Of its fields Text to Hang only one is set.
type Step struct {
	Text      string                `json:"text,omitzero"`      // a message
	Reasoning string                `json:"reasoning,omitzero"` // thoughts
	Tool      *Tool                 `json:"tool,omitzero"`
	Tools     []Tool                `json:"tools,omitzero"` // in parallel: all start before any ends
	Plan      []event.PlanEntry     `json:"plan,omitzero"`
	Notice    *event.Notice         `json:"notice,omitzero"`
	Usage     *event.UsageUpdated   `json:"usage,omitzero"`
	Session   *event.SessionUpdated `json:"session,omitzero"`
	Fail      *event.Fault          `json:"fail,omitzero"`  // ends the turn as failed
	Crash     bool                  `json:"crash,omitzero"` // the agent is gone
	Hang      bool                  `json:"hang,omitzero"`  // nothing more happens until it is interrupted

	Error   *event.Fault `json:"error,omitzero"`   // ends Text or Reasoning as failed; the turn goes on
	Repeat  int          `json:"repeat,omitzero"`  // how often Text or Reasoning is said. Default: once
	Rate    float64      `json:"rate,omitzero"`    // words a second of Text, Reasoning and arguments. Default: no delay
	PauseMS int          `json:"pauseMs,omitzero"` // silence before the step
}

// A Tool is a call and what it gives.
type Tool struct {
	Name      string          `json:"name"`
	Kind      event.ToolKind  `json:"kind,omitzero"`
	Title     string          `json:"title,omitzero"`
	Arguments json.RawMessage `json:"arguments,omitzero"`
	Output    string          `json:"output,omitzero"`
	Pieces    []string        `json:"pieces,omitzero"`  // of the output, after Output: it grows by one after the other
	PieceMS   int             `json:"pieceMs,omitzero"` // silence before each
	IsError   bool            `json:"isError,omitzero"`
	ExitCode  *int            `json:"exitCode,omitzero"`
	Changes   []event.Change  `json:"changes,omitzero"`
	Ask       *Ask            `json:"ask,omitzero"` // an approval comes first
	TakesMS   int             `json:"takesMs,omitzero"`
	Steps     []Step          `json:"steps,omitzero"` // what the subagent it starts does
}

// An Ask is an approval. Where it is a question or a form, the answer becomes
// the tool's output. Withdraw takes it back without an answer.
type Ask struct {
	Kind      event.ApprovalKind `json:"kind,omitzero"` // Default: tool
	Title     string             `json:"title,omitzero"`
	Why       string             `json:"why,omitzero"`
	Arguments json.RawMessage    `json:"arguments,omitzero"` // Default: the tool's
	Choices   []event.Choice     `json:"choices,omitzero"`   // Default: those of an approval of this kind
	Withdraw  bool               `json:"withdraw,omitzero"`
	Editable  bool               `json:"editable,omitzero"` // the answer may have other arguments, as for questions and forms
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

// Find returns the script that a prompt asks for.
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
		return s, runnel.Fail(runnel.InvalidRequest, "the prompt is not a script: see the package documentation of provider/script for its fields", err)
	}
	return s, nil
}

// Provider plays scripts. The zero value is ready to use.
type Provider struct {
	// Script is played for every prompt if it has steps. It is played as it is:
	// there are no settings but those that it names.
	Script Script
}

// New returns a provider that plays what the prompts ask for.
func New() *Provider { return new(Provider) }

// Name implements [runnel.Provider].
func (p *Provider) Name() string { return Name }

// Open implements [runnel.Provider]. A conversation that goes on may have
// settings that a script named.
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
		Models: []runnel.Model{{ID: defaultModel, Name: "Scripted", Description: "plays a script; no model is asked"}},
		Modes:  []string{string(runnel.ModeDefault), string(runnel.ModeAcceptEdits), string(runnel.ModeBypass)},
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
