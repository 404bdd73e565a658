package runnel_test

import (
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

// The library has no queue, so its errors do not advise one.
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
