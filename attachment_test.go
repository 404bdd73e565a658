package runnel_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

func rejections(n int) (out []runnel.Rejection) {
	for i := range n {
		out = append(out, runnel.Rejection{Path: "/p/" + string(rune('a'+i)) + ".pdf", Reason: "no\nPDF"})
	}
	return out
}

func TestWarningIsCutFromThePromptExactly(t *testing.T) {
	for n := range 6 {
		warning := runnel.Input{Rejected: rejections(n)}.Warning()
		if lines := strings.Count(warning, "\n") + 1; n > 0 && lines != []int{0, 3, 4, 5, 6, 6}[n] {
			t.Errorf("%d rejections on %d lines: %q", n, lines, warning)
		}
		for _, rest := range []string{"", "text", "- a line\n- another", "- ... 2 additional attachment error(s) omitted"} {
			all := warning
			if rest != "" && warning != "" {
				all += "\n"
			}
			got, left := runnel.CutWarning(all + rest)
			if got != warning || left != rest {
				t.Errorf("%d, %q: got %q and %q", n, rest, got, left)
			}
		}
	}
	for _, other := range []string{
		"", "Attachment warning", "Attachment warning: 0 attachment(s) could not be processed. Continuing with available content.\nRejected attachments:\n- a: b",
		"Attachment warning: 2 attachment(s) could not be processed. Continuing with available content.\nRejected attachments:\n- a: b",
		"Attachment warning: 5 attachment(s) could not be processed. Continuing with available content.\nRejected attachments:\n- a: b\n- a: b\n- a: b\n- ... 3 additional attachment error(s) omitted",
		"x Attachment warning: 1 attachment(s) could not be processed. Continuing with available content.\nRejected attachments:\n- a: b",
	} {
		if got, left := runnel.CutWarning(other); got != "" || left != other {
			t.Errorf("%q: got %q and %q", other, got, left)
		}
	}
}

func TestTitlesDoNotBeginWithTheWarning(t *testing.T) {
	warning := runnel.Input{Rejected: rejections(5)}.Warning()
	oneLine := strings.ReplaceAll(warning, "\n", " ")
	for native, want := range map[string]string{
		"see this":               "see this",
		warning + "\nsee this":   "see this",
		warning:                  "",
		oneLine + " see this":    "", // the end of the warning is unknown
		oneLine[:80] + "…":       "",
		"Attachment warnings: 1": "Attachment warnings: 1",
	} {
		if got := runnel.TitleOf(native); got != want {
			t.Errorf("%q: got %q, want %q", native, got, want)
		}
	}
}

// pdfRejecter is an agent that rejects PDF files. It records its prompts in
// given.
type pdfRejecter struct {
	runnel.Provider
	given []runnel.Input
}

func (a *pdfRejecter) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	conn, err := a.Provider.Open(ctx, opt)
	return pdfRejecterConn{conn, a}, err
}

func (a *pdfRejecter) Accepts(context.Context, runnel.Options) (func(runnel.Attachment) string, error) {
	return func(at runnel.Attachment) string {
		if at.MediaType == "application/pdf" {
			return "it takes no PDF"
		}
		return ""
	}, nil
}

type pdfRejecterConn struct {
	runnel.Conn
	a *pdfRejecter
}

func (c pdfRejecterConn) Prompt(ctx context.Context, turn string, in runnel.Input) error {
	c.a.given = append(c.a.given, in)
	return c.Conn.Prompt(ctx, turn, in)
}

// A reader gets exactly one notice about rejected attachments, even if the
// agent does not start or repeats the notice.
func TestRejectedAttachmentsAreNoticedOnce(t *testing.T) {
	repeats := script.Script{Steps: []script.Step{
		{Notice: &event.Notice{Level: event.LevelWarning, Code: runnel.AttachmentsRejected, Message: "again"}}, {Text: "Done."},
	}}
	for name, agent := range map[string]runnel.Provider{
		"agent that starts": speaker(), "agent that does not start": &planModeRejecter{Provider: speaker()}, "agent that repeats it": &script.Provider{Script: repeats},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := runnel.Open(t.Context(), agent, runnel.Options{PermissionMode: runnel.ModePlan}, runnel.Config{Dormant: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			in := runnel.Input{Text: "x", Rejected: rejections(2)}
			turn, err := s.Send(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			var notices []string
			for ev, err := range turn.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if b, ok := ev.Body.(event.Notice); ok && b.Code == runnel.AttachmentsRejected {
					notices = append(notices, b.Message)
				}
			}
			if diff := cmp.Diff([]string{in.Warning()}, notices); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAttachmentThatTheAgentDoesNotTakeIsDropped(t *testing.T) {
	pdf := runnel.Attachment{Name: "a.pdf", MediaType: "application/pdf", Data: []byte("%PDF")}
	note := runnel.Attachment{Name: "b.txt", MediaType: "text/plain", Text: "b"}
	early := runnel.Rejection{Path: "/p/c.png", Reason: "it is empty"}
	for name, c := range map[string]struct {
		in   runnel.Input
		want runnel.Input // that the agent gets
		code runnel.Code
	}{
		"with text":        {in: runnel.Input{Text: "x", Attachments: []runnel.Attachment{pdf}}, want: runnel.Input{Text: "x", Rejected: []runnel.Rejection{{Path: "a.pdf", Reason: "it takes no PDF"}}}},
		"beside another":   {in: runnel.Input{Attachments: []runnel.Attachment{pdf, note}}, want: runnel.Input{Attachments: []runnel.Attachment{note}, Rejected: []runnel.Rejection{{Path: "a.pdf", Reason: "it takes no PDF"}}}},
		"after another":    {in: runnel.Input{Text: "x", Attachments: []runnel.Attachment{pdf}, Rejected: []runnel.Rejection{early}}, want: runnel.Input{Text: "x", Rejected: []runnel.Rejection{early, {Path: "a.pdf", Reason: "it takes no PDF"}}}},
		"blank text":       {in: runnel.Input{Text: " \n", Attachments: []runnel.Attachment{note}}, want: runnel.Input{Attachments: []runnel.Attachment{note}}},
		"alone":            {in: runnel.Input{Attachments: []runnel.Attachment{pdf}}, code: runnel.AttachmentFailure},
		"blank text alone": {in: runnel.Input{Text: "\t", Attachments: []runnel.Attachment{pdf}}, code: runnel.AttachmentFailure},
	} {
		t.Run(name, func(t *testing.T) {
			agent := &pdfRejecter{Provider: speaker()}
			s, err := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			turn, err := s.Send(t.Context(), c.in)
			if runnel.CodeOf(err) != c.code {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			for ev, err := range turn.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if b, ok := ev.Body.(event.ItemDone); ok && b.ItemID == runnel.UserItemID(turn.ID) {
					m := b.FinalItem.(event.Message)
					if m.Content != c.want.Text || len(m.Attachments) != len(c.want.Attachments) {
						t.Errorf("the user's message is %+v", m)
					}
				}
			}
			got := agent.given[0]
			got.Turn, got.After = "", 0
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A session stores the images of a prompt before it logs the prompt, and
// removes them if the prompt is rejected.
func TestImagesAreStoredBeforeThePrompt(t *testing.T) {
	log := new(runnel.Memory)
	kept, undone, refuse := 0, 0, error(nil)
	s, err := runnel.Open(t.Context(), script.New(), runnel.Options{Dir: t.TempDir()}, runnel.Config{
		Log: log,
		Pictures: func(images [][]byte) (func(), error) {
			if len(images) != 1 || string(images[0]) != "GIF89a" {
				t.Errorf("stored: %q", images)
			}
			kept++
			return func() { undone++ }, refuse
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	with := func(text string) runnel.Input {
		return runnel.Input{Text: text, Attachments: []runnel.Attachment{{Name: "a.gif", MediaType: "image/gif", Data: []byte("GIF89a")}, {Name: "a.pdf", Data: []byte("%PDF-")}, {Name: "a.txt", Text: "GIF89a"}}}
	}
	refuse = runnel.Fail(runnel.StoreUnavailable, "full")
	if _, err := s.Send(t.Context(), with("text")); runnel.CodeOf(err) != runnel.StoreUnavailable {
		t.Errorf("an image that cannot be stored: %v", err)
	}
	if head := s.Status().Head; head != 0 {
		t.Errorf("the log has %d events", head)
	}
	refuse = nil
	if _, err := s.Send(t.Context(), with("approve")); err != nil {
		t.Fatal(err)
	}
	if kept != 2 || undone != 0 {
		t.Errorf("stored %d times, removed %d times", kept, undone)
	}
	if _, err := s.Send(t.Context(), with("text")); runnel.CodeOf(err) != runnel.TurnInProgress {
		t.Errorf("during a turn: %v", err)
	}
	if kept != 3 || undone != 1 {
		t.Errorf("stored %d times, removed %d times", kept, undone)
	}
	var names []string
	for ev, err := range log.Read(t.Context(), s.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, event.Pictures(ev.Body)...)
	}
	if want := event.PictureID([]byte("GIF89a")); len(names) != 1 || names[0] != want {
		t.Errorf("the prompt names %q, want %q", names, want)
	}
}
