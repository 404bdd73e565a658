package audit_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/event"
)

func TestRecordSaysWhoWhatAndWhy(t *testing.T) {
	at := time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)
	d := runnel.Decided{
		Turn: "t", At: at,
		Approval: event.Approval{ID: "a", ToolName: "Bash", Title: "rm\n-rf " + strings.Repeat("x", 500), ArgumentsDigest: "d1"},
		Resolved: event.ApprovalResolved{ApprovalID: "a", Choice: "deny", By: event.ByPolicy, Reason: "denied by rule 7", UpdatedArguments: []byte("{}")},
		Maker:    runnel.Maker{Name: "rules", Rule: 7},
	}
	got := audit.Of("s", d)
	if len(got.What) > 310 || !strings.HasPrefix(got.What, "Bash: rm -rf xxx") {
		t.Errorf("what: %q", got.What)
	}
	got.What = ""
	want := audit.Record{
		At: at, Session: "s", Turn: "t", Approval: "a", By: event.ByPolicy, Who: "rules", Choice: "deny", Why: "denied by rule 7", Digest: "d1", Edited: true, Rule: 7,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLogWritesOneLineForEachDecision(t *testing.T) {
	var out bytes.Buffer
	audit.Log(slog.New(slog.NewTextHandler(&out, nil)))(audit.Record{
		Session: "s", Turn: "t", Approval: "a", By: event.ByUser, Who: "laptop", Credential: "c1", What: "Bash: ls", Choice: "allow", Digest: "d", Rule: 3,
	})
	for _, part := range []string{`msg="approval decided"`, "session=s", "by=user", "who=laptop", "credential=c1", `what="Bash: ls"`, "choice=allow", "rule=3", "digest=d"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the line lacks %s: %s", part, out.String())
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines", n)
	}
}
