package acp

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

func TestSystemPromptReachesTheModel(t *testing.T) {
	const text = "--settings={} Answer in plain words."
	for _, name := range []string{"codex-acp", "claude-agent-acp"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, name)
			r.Opt.SystemPromptAppend = text
			r.Play(fakemodel.Step{Text: "Done."})
			r.Finish("")
			if !slices.ContainsFunc(r.Model.Requests(), func(q fakemodel.Request) bool { return bytes.Contains(q.Body, []byte(text)) }) {
				t.Error("the model did not receive the text")
			}
		})
	}
}

// The adapter for Claude Code passes on the tools, the limit of model calls and
// further directories.
func TestAdapterPassesOptionsOfAStartOn(t *testing.T) {
	r := newRig(t, "claude-agent-acp")
	further := filepath.Join(r.Home.Dir, "further")
	if err := os.Mkdir(further, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(further, "f.txt")
	if err := os.WriteFile(file, []byte("beyond\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	input, err := json.Marshal(map[string]string{"file_path": file})
	if err != nil {
		t.Fatal(err)
	}
	r.Opt.Tools, r.Opt.MaxTurns, r.Opt.AddDirs = []string{"Read", "Bash"}, 1, []string{further}
	r.Play(fakemodel.Step{Blocks: []fakemodel.Block{{Type: "tool_use", Name: "Read", Input: input}}}, fakemodel.Step{Text: "Done."})
	evs := r.Finish("")
	var names []string
	for _, q := range r.Model.Requests() {
		var body struct{ Tools []struct{ Name string } }
		if q.Method == "POST" && json.Unmarshal(q.Body, &body) == nil {
			for _, tool := range body.Tools {
				if !slices.Contains(names, tool.Name) && tool.Name != "DeferredToolPlaceholder" {
					names = append(names, tool.Name)
				}
			}
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"Bash", "Read"}) {
		t.Errorf("tools: the model can call %q", names)
	}
	read := false
	for _, ev := range evs {
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			t.Errorf("addDirs: %s needed an approval", b.Approval.Title)
		case event.ItemDone:
			out, ok := b.FinalItem.(event.FunctionCallOutput)
			read = read || ok && strings.Contains(out.Output, "beyond")
		}
	}
	if !read {
		t.Error("addDirs: the file was not read")
	}
	last, ok := evs[len(evs)-1].Body.(event.ResponseError)
	if !ok || !strings.Contains(last.Error.Message, "maximum number of turns (1)") {
		t.Errorf("maxTurns: the turn ended with %+v", evs[len(evs)-1].Body)
	}
}
