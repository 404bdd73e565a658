package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/provider/script"
)

// A picky is the scripted agent that records its settings, accepts no PDF and
// cannot prepare an attachment named "broken". Its agents reject the effort
// "high" and cannot change the config of a live conversation to "nope".
type picky struct {
	*script.Provider

	mu      sync.Mutex
	starts  []runnel.Options  // options of each start
	changes []runnel.Settings // settings that running agents received
}

func (p *picky) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	conn, err := p.Provider.Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts = append(p.starts, runnel.Options{Model: opt.Model, PermissionMode: opt.PermissionMode, ReasoningEffort: opt.ReasoningEffort, Config: opt.Config})
	return &pickyConn{conn, p}, nil
}

func (p *picky) Accepts(context.Context, runnel.Options) (func(runnel.Attachment) string, error) {
	return func(a runnel.Attachment) string {
		if a.MediaType == "application/pdf" {
			return "Picky takes no PDF"
		}
		return ""
	}, nil
}

func (p *picky) Prepare(_ context.Context, in runnel.Input) (runnel.Input, error) {
	for _, a := range in.Attachments {
		if strings.HasPrefix(a.Name, "broken") {
			return in, runnel.Fail(runnel.AttachmentFailure, a.Name+": cannot be prepared")
		}
	}
	return in, nil
}

func (p *picky) Prototype() runnel.Conn { return (*pickyConn)(nil) }

// settings returns the options of each start and the settings that agents got
// since then.
func (p *picky) settings() ([]runnel.Options, []runnel.Settings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]runnel.Options(nil), p.starts...), append([]runnel.Settings(nil), p.changes...)
}

type pickyConn struct {
	runnel.Conn
	p *picky
}

// Settings implements [runnel.SettingsReporter].
func (c *pickyConn) Settings() runnel.Settings { return c.Conn.(runnel.SettingsReporter).Settings() }

func (c *pickyConn) note(s runnel.Settings) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.changes = append(c.p.changes, s)
	return nil
}

func (c *pickyConn) SetModel(_ context.Context, model string) error {
	return c.note(runnel.Settings{Model: model})
}

func (c *pickyConn) SetPermissionMode(_ context.Context, mode runnel.PermissionMode) error {
	return c.note(runnel.Settings{PermissionMode: mode})
}

func (c *pickyConn) SetReasoningEffort(ctx context.Context, effort string) error {
	if err := c.CheckSettings(runnel.Settings{ReasoningEffort: effort}); err != nil {
		return err
	}
	return c.note(runnel.Settings{ReasoningEffort: effort})
}

func (c *pickyConn) SetConfig(_ context.Context, id, value string) error {
	set := runnel.Settings{Config: runnel.Values{id: value}}
	if err := c.CheckSettings(set); err != nil {
		return err
	}
	return c.note(set)
}

// CheckSettings implements [runnel.SettingsChecker].
func (c *pickyConn) CheckSettings(set runnel.Settings) error {
	if set.ReasoningEffort == "high" || set.Config["pace"] == "nope" {
		return runnel.Fail(runnel.InvalidRequest, "Picky refuses this setting")
	}
	return nil
}

// A refusal is a prompt that is rejected for a reason other than its options.
type refusal struct {
	message     string
	attachments []string
	opts        map[string]any // besides the options under test
	queue       bool           // the prompt is sent with queue
	needsAgent  bool           // only a running agent rejects it
	code        string
}

// refusals returns all reasons for which a prompt is rejected.
func refusals(dir string) map[string]refusal {
	in := func(name string) string { return filepath.Join(dir, name) }
	return map[string]refusal{
		"attachment that the server refuses":       {attachments: []string{in("gone.txt")}, code: "ATTACHMENT_FAILURE"},
		"attachment outside the roots":             {attachments: []string{"/etc/passwd"}, code: "ATTACHMENT_FAILURE"},
		"attachment that the agent refuses":        {attachments: []string{in("a.pdf")}, code: "ATTACHMENT_FAILURE"},
		"attachments that both refuse":             {message: " \n", attachments: []string{in("a.pdf"), in("gone.txt")}, code: "ATTACHMENT_FAILURE"},
		"attachment that cannot be prepared":       {message: "text", attachments: []string{in("broken.txt")}, code: "ATTACHMENT_FAILURE"},
		"profile":                                  {message: "text", opts: map[string]any{"persona": "nobody"}, code: "PERSONA_NOT_FOUND"},
		"unknown permission mode":                  {message: "text", opts: map[string]any{"permissionMode": "yolo"}, code: "INVALID_REQUEST"},
		"mode that is not allowed":                 {message: "text", opts: map[string]any{"permissionMode": "bypass"}, code: "INVALID_REQUEST"},
		"effort that the agent refuses":            {message: "text", opts: map[string]any{"reasoningEffort": "high"}, needsAgent: true, code: "INVALID_REQUEST"},
		"config that the agent refuses":            {message: "text", opts: map[string]any{"config": map[string]string{"thoughts": "false", "pace": "nope"}}, needsAgent: true, code: "INVALID_REQUEST"},
		"empty id of a config option":              {message: "text", opts: map[string]any{"config": map[string]string{"": "x"}}, code: "INVALID_REQUEST"},
		"NUL in the prompt":                        {message: "te\x00xt", code: "INVALID_REQUEST"},
		"blank prompt":                             {message: " \n", code: "INVALID_REQUEST"},
		"queued attachment that the agent refuses": {attachments: []string{in("a.pdf")}, queue: true, needsAgent: true, code: "ATTACHMENT_FAILURE"},
		"queued config that the agent refuses":     {message: "text", opts: map[string]any{"config": map[string]string{"pace": "nope"}}, queue: true, needsAgent: true, code: "INVALID_REQUEST"},
		"turn that runs":                           {message: "text", needsAgent: true, code: "TURN_IN_PROGRESS"},
	}
}

// optionSets are the options of a rejected prompt.
var optionSets = map[string]map[string]any{
	"model":  {"model": "other"},
	"mode":   {"permissionMode": "acceptEdits"},
	"effort": {"reasoningEffort": "low"},
	"config": {"config": map[string]string{"thoughts": "false"}},
	"all":    {"model": "other", "permissionMode": "acceptEdits", "reasoningEffort": "low", "config": map[string]string{"thoughts": "false"}},
}

// sendWays are the ways in which a client sends a prompt. Each returns the code
// of the error.
var sendWays = map[string]func(s *site, r refusal, id string, opts map[string]any) string{
	"send": func(s *site, r refusal, id string, opts map[string]any) string {
		return code(s.do("POST", "/api/session/"+id+"/send", r.body("content", opts, map[string]any{"queue": r.queue})))
	},
	"harness turn": func(s *site, r refusal, id string, opts map[string]any) string {
		return code(s.do("POST", "/api/harness/turn", r.body("message", opts, map[string]any{"sessionId": id})))
	},
	"socket": func(s *site, r refusal, id string, opts map[string]any) string {
		p := s.dial()
		p.send("%s", r.body("content", opts, map[string]any{"type": "session:send", "requestId": "r", "sessionId": id, "queue": r.queue}))
		if f := p.await("error", "response"); f.Error != nil {
			return string(f.Error.Type)
		}
		return ""
	},
}

// body returns the JSON body of a request with the prompt. text is the name of
// the field for the prompt's text. also has further fields.
func (r refusal) body(text string, opts, also map[string]any) string {
	opts = maps.Clone(opts)
	maps.Copy(opts, r.opts)
	body := map[string]any{text: r.message, "attachments": r.attachments, "opts": opts}
	maps.Copy(body, also)
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// A prompt that is rejected changes neither its session nor the settings of the
// agent.
func TestRefusedTurnLeavesTheSessionUnchanged(t *testing.T) {
	testload.TakesLong(t)
	timed(t, minute)
	for _, alive := range []bool{true, false} {
		t.Run(map[bool]string{true: "agent runs", false: "agent has ended"}[alive], func(t *testing.T) {
			testRefusedTurns(t, alive)
		})
	}
}

func testRefusedTurns(t *testing.T, alive bool) {
	p := &picky{Provider: script.New()}
	s := serve(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	for name, content := range map[string]string{"a.pdf": "%PDF-1.7\n", "broken.txt": "broken"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range refusals(s.dir) {
		if !alive && r.needsAgent {
			continue
		}
		for set, opts := range optionSets {
			for way, send := range sendWays {
				if r.queue && way == "harness turn" {
					continue // this way has no queue
				}
				if way != "send" && set != "all" && os.Getenv("RUNNEL_LONG") == "" {
					continue // "all" has every option, and "send" tries each of them alone
				}
				t.Run(fmt.Sprintf("%s/%s/%s", name, set, way), func(t *testing.T) {
					rg := *s.rig
					rg.t = t
					sub := &site{&rg, s.ln, s.http, s.client}
					sub.refusedTurn(p, r, alive, func(id string) string { return send(sub, r, id, opts) })
				})
			}
		}
	}
}

// refusedTurn sends a prompt that is rejected. It compares the session before
// and after it, and the agent of the next turn.
func (s *site) refusedTurn(p *picky, r refusal, alive bool, send func(id string) string) {
	t, id := s.t, s.create()
	s.events(id, s.prompt(id, "text"))
	if !alive {
		call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/kill", "", 200)
		call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/load", "{}", 200)
	}
	busy := ""
	if r.queue || r.code == "TURN_IN_PROGRESS" {
		busy = s.prompt(id, "hang")
		s.until(id, func(ev event.Event) bool {
			b, ok := ev.Body.(event.ItemDone)
			return ok && ev.Turn == busy && b.ItemID != runnel.UserItemID(busy)
		})
	}
	before := s.snapshot(id, p)
	if got := send(id); got != r.code {
		t.Errorf("got %q, want %s", got, r.code)
	}
	if diff := cmp.Diff(before, s.snapshot(id, p)); diff != "" {
		t.Errorf("a refused turn changed the session:\n%s", diff)
	}
	if busy != "" {
		call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/cancel", "", 200)
		s.events(id, busy)
	}
	starts, changes := p.settings()
	next := s.prompt(id, "text")
	for _, ev := range s.events(id, next) {
		if b, ok := ev.Body.(event.ResponseStart); ok && ev.Turn == next && b.ModelID != "scripted" {
			t.Errorf("the next turn runs with %q", b.ModelID)
		}
	}
	startsNow, changesNow := p.settings()
	if len(changesNow) != len(changes) {
		t.Errorf("with the next turn the agent received %+v", changesNow[len(changes):])
	}
	for _, opt := range startsNow[len(starts):] {
		if opt.Model != "" || opt.PermissionMode != "" || opt.ReasoningEffort != "" || len(opt.Config) != 0 {
			t.Errorf("the next turn's agent was started with %+v", opt)
		}
	}
}

// snapshot returns everything that a prompt could change: the status, the
// record, and the settings that agents got.
func (s *site) snapshot(id string, p *picky) map[string]string {
	s.t.Helper()
	rec, err := s.cat.Session(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	starts, changes := p.settings()
	return map[string]string{
		"status":  s.do("GET", "/api/session/"+id+"/status", "").Body.String(),
		"options": string(rec.Options),
		"starts":  fmt.Sprintf("%+v", starts),
		"changes": fmt.Sprintf("%+v", changes),
	}
}

// A rejected attachment is dropped with a warning, and the prompt continues. If
// all are rejected and the prompt has no text, the prompt is rejected.
func TestAttachmentThatTheAgentDoesNotTakeIsDropped(t *testing.T) {
	rg := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{&picky{Provider: script.New()}} })
	pdf := filepath.Join(rg.dir, "a.pdf")
	if err := os.WriteFile(pdf, []byte("%PDF-1.7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := rg.create()
	body := fmt.Sprintf(`{"content":"text","attachments":[{"path":%q},{"path":"/etc/passwd"}]}`, pdf)
	ans := call[command.SendAnswer](rg, "POST", "/api/session/"+id+"/send", body, 202)
	want := "Attachment warning: 2 attachment(s) could not be processed. Continuing with available content.\n" +
		"Rejected attachments:\n- a.pdf: Picky takes no PDF\n- passwd: it lies outside the folders that may be read"
	if len(ans.Warnings) != 1 || ans.Warnings[0] != want {
		t.Errorf("warnings %q, want %q", ans.Warnings, want)
	}
	notices := 0
	for _, ev := range rg.events(id, ans.TurnID) {
		switch b := ev.Body.(type) {
		case event.ItemDone:
			if m, ok := b.FinalItem.(event.Message); ok && m.Origin == event.OriginUser && (m.Content != "text" || len(m.Attachments) > 0) {
				t.Errorf("the user's message is %+v", m)
			}
		case event.Notice:
			if b.Code == runnel.AttachmentsRejected && b.Message == want {
				notices++
			}
		}
	}
	if notices != 1 {
		t.Errorf("%d notices about the rejected attachments", notices)
	}
	w := rg.do("POST", "/api/session/"+id+"/send", fmt.Sprintf(`{"content":" \n","attachments":[{"path":%q},{"path":"/etc/passwd"}]}`, pdf))
	details := fmt.Sprintf(`"details":{"category":"ALL_ATTACHMENTS_FAILED_NO_TEXT","attachmentErrors":[{"path":%q,"reason":"Picky takes no PDF"},`+
		`{"path":"/etc/passwd","reason":"it lies outside the folders that may be read"}],"rejectedAttachmentCount":2}`, pdf)
	if w.Code != 400 || code(w) != "ATTACHMENT_FAILURE" || !strings.Contains(w.Body.String(), details) {
		t.Errorf("got %d %s, want %s", w.Code, w.Body, details)
	}
}

// A harness turn reports rejected attachments once, by a notice of the turn.
// They are not also among the warnings about options.
func TestHarnessTurnReportsRejectedAttachmentsOnce(t *testing.T) {
	rg := newRig(t)
	w := rg.do("POST", "/api/harness/turn", fmt.Sprintf(`{"sessionId":%q,"message":"text","attachments":[{"path":"/etc/passwd"}]}`, rg.create()))
	if n := strings.Count(w.Body.String(), "Attachment warning: "); n != 1 || !strings.Contains(w.Body.String(), runnel.AttachmentsRejected) {
		t.Errorf("%d reports in %s", n, w.Body)
	}
}
