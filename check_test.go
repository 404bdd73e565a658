package runnel_test

import (
	"context"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/script"
)

func TestBlankPromptIsRefused(t *testing.T) {
	s, err := runnel.Open(t.Context(), script.New(), runnel.Options{}, runnel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, text := range []string{"", " \t\r\n", "\u00a0", "a\x00b", "a\xff"} {
		if _, err := s.Send(t.Context(), runnel.Text(text)); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("Send %q: got %v", text, err)
		}
		if _, err := runnel.Start(t.Context(), script.New(), runnel.Options{}, runnel.Text(text)); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("Start %q: got %v", text, err)
		}
	}
	with := runnel.Input{Attachments: []runnel.Attachment{{Name: "a.txt", MediaType: "text/plain", Text: "a"}}}
	if _, err := s.Send(t.Context(), with); err != nil {
		t.Errorf("an attachment without text: %v", err)
	}
}

// The library has no queue, so its errors do not tell users to queue the
// prompt.
func TestTurnInProgressAdvisesWhatTheLibraryCan(t *testing.T) {
	s, err := runnel.Open(t.Context(), script.New(), runnel.Options{}, runnel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Send(t.Context(), runnel.Text("hang")); err != nil {
		t.Fatal(err)
	}
	_, err = s.Send(t.Context(), runnel.Text("text"))
	if runnel.CodeOf(err) != runnel.TurnInProgress || strings.Contains(runnel.Safe(err).Message, "queue") {
		t.Errorf("got %v", err)
	}
}

// Programs that use the universal API search error messages for these words.
func TestInvalidOptionsHaveTheWordsOfTheUniversalAPI(t *testing.T) {
	for want, opt := range map[string]runnel.Options{
		"(invalid agent_api.config.model.v1)":                                             {Model: strings.Repeat("m", 129)},
		"blank; leave it out for the agent's default (invalid agent_api.config.model.v1)": {Model: " "},
		"(invalid agent_api.exec.add_dirs.v1.dirs)":                                       {AddDirs: make([]string, 17)},
		"(invalid agent_api.exec.add_dirs.v1.dirs[1])":                                    {AddDirs: []string{t.TempDir(), "~/x"}},
		"(invalid agent_api.exec.add_dirs.v1.dirs[0])":                                    {AddDirs: []string{"/no/such/directory"}},
	} {
		_, err := runnel.CheckOptions(unlimited{script.New()}, opt, nil)
		if runnel.CodeOf(err) != runnel.InvalidRequest || !strings.HasSuffix(runnel.Safe(err).Message, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, err := runnel.Open(t.Context(), failingResume{script.New()}, runnel.Options{Resume: "x"}, runnel.Config{})
	if runnel.CodeOf(err) != runnel.SessionNotFound || !strings.HasPrefix(runnel.Safe(err).Message, "session not found: ") {
		t.Error(err)
	}
}

// unlimited is a provider that accepts every option.
type unlimited struct{ *script.Provider }

func (unlimited) Takes() runnel.Takes {
	return runnel.Takes{AddDirs: true}
}

// failingResume is a provider whose agents find no conversation to resume.
type failingResume struct{ *script.Provider }

func (failingResume) Open(context.Context, runnel.Options) (runnel.Conn, error) {
	return nil, runnel.Fail(runnel.SessionNotFound, "The agent has no such conversation.")
}
