package httpapi

import (
	"context"
	"net/http"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/filediff"
)

// Bounds of the diffs in an answer.
const (
	contextLines = 3       // unchanged lines around each difference, by default
	maxContext   = 1 << 20 // stands for the whole file
	maxDiffs     = 2 << 20 // bytes of all lines
	perLine      = 8       // bytes that a line adds to its text
)

// marker replaces a line from which a secret was removed.
const marker = "[redacted]"

// Request and response bodies about changes to files.
type (
	fileDiff struct {
		Path    string           `json:"path" doc:"Path of the file before the change. Absolute for changes that an agent reported, and relative to the session's folder for those from git."`
		Kind    event.ChangeKind `json:"kind"`
		MovedTo string           `json:"movedTo,omitempty" doc:"New path of a file that was moved."`
		Added   int              `json:"added" doc:"Number of added lines, also of those that hunks leave out."`
		Removed int              `json:"removed" doc:"Number of removed lines, also of those that hunks leave out."`
		Hunks   []event.Hunk     `json:"hunks" doc:"The differences, in order. Empty if the change is in steps."`
		Steps   []event.Change   `json:"steps,omitempty" doc:"The changes one after another, if the server does not know enough of the file to combine them."`
		Newline filediff.Newline `json:"newline,omitempty" enum:"added,removed" doc:"Whether the change adds or removes the newline at the end of the file. Absent if neither."`
		Whole   bool             `json:"whole,omitempty" doc:"Whether a larger context shows more of the file, up to all of it."`
		Outside bool             `json:"outside,omitempty" doc:"Whether something else changed the file between two changes of the agent. The hunks show that, too."`
		Binary  bool             `json:"binary,omitempty" doc:"Whether the file is not text, so that it has no hunks."`
		Cut     bool             `json:"cut,omitempty" doc:"Whether the end of the diff is left out, because it is too long."`
		Omitted bool             `json:"omitted,omitempty" doc:"Whether the whole diff is left out, because the response would be too long. A request with the path may return it."`
		OldMode string           `json:"oldMode,omitempty" doc:"Mode of the file before the change, as git writes it. Absent if the mode stays the same."`
		NewMode string           `json:"newMode,omitempty" doc:"Mode of the file after the change."`
		Seen    string           `json:"seen,omitempty" doc:"Stands for the current content of the file. A request with this value fails if the file has changed since."`
		Place   filediff.Place   `json:"place,omitempty" doc:"How the line numbers of an intended change were found. agent: the agent reported them. found: the file has the old text once, or every occurrence is replaced. whole: the change concerns the whole file. several: the file has the old text more than once. missing: the file does not have the old text. unknown: the server did not read the file, or there is too much to search. With several, missing and unknown, the hunks are those that the agent reported."`
		Lines   []int            `json:"lines,omitempty" doc:"Numbers of the lines where the old text begins, if place is several; at most 20."`
		Problem string           `json:"problem,omitempty" doc:"Why the server did not read the file."`
	}
	changesAnswer struct {
		Files []fileDiff `json:"files" doc:"The files, in the order in which they were first changed."`
		More  int        `json:"more,omitempty" doc:"Number of changes in further files, which are left out."`
	}
	intendedAnswer struct {
		Files []fileDiff `json:"files" doc:"The changes of the approval, in its order; at most 50."`
	}
	stagedFile struct {
		Path string `json:"path" doc:"Path of the file, relative to the session's folder."`
		Seen string `json:"seen,omitempty" doc:"seen of the diff that the client has shown. The request fails if the file has changed since. Default: the file is not compared."`
	}
	stageRequest struct {
		Files  []stagedFile `json:"files" doc:"The files, 1 to 1000."`
		Staged *bool        `json:"staged" doc:"true: the next commit contains the files. false: it does not."`
	}
	commitRequest struct {
		Message string `json:"message" doc:"Message of the commit, at most 65536 bytes. The server removes white space at both ends."`
		Seen    string `json:"seen" doc:"seen of the status that the client has shown."`
	}
	revertRequest struct {
		Path          string `json:"path" doc:"Path of the file, relative to the session's folder."`
		Seen          string `json:"seen" doc:"seen of the diff that the client has shown."`
		LosesUnstaged bool   `json:"losesUnstaged,omitempty" doc:"Whether the user knows that changes that are not staged are lost. Without it, the request fails if the file has such changes. Default: false."`
	}
)

// The scope of requests that change a folder or its repository. Such a change
// needs no further approval, as if the user had allowed an agent to make it, and
// in a trusted folder a commit runs hooks.
const changeScope = auth.Approve

func (s *sessions) changeRoutes() []route {
	context := param{name: "context", number: true, doc: "Number of unchanged lines before and after each difference. Default: 3."}
	refused := []runnel.Code{runnel.GitFailed, runnel.ChangesOutdated, runnel.Timeout}
	return inTurn(&s.atOnce, []route{
		handle(route{path: "/api/session/{id}/changes", scope: auth.Read, name: "listChanges",
			summary: "Get the changes that an agent made", about: "Returns one diff for each file, from its text before the first change to its text after the last, as the agent reported them. Files that are as before in the end are left out, and so are changes that commands made without the agent reporting them.",
			params: []param{
				{name: "turn", doc: "Id of the turn. Default: the whole session."},
				{name: "path", doc: "Path of a file, as in an earlier response. Only its diff is returned. Default: all files."},
				context,
			}, fails: []runnel.Code{runnel.Timeout}}, asking(s, s.listChanges)),
		handle(route{path: "/api/session/{id}/approvals/{approvalId}/changes", scope: auth.Read, name: "approvalChanges",
			summary: "Get the changes that an approval would allow", about: "Returns the changes with their line numbers in the files as they are now, and with unchanged lines around them. The server reads only files in the session's folder, and follows no links.",
			params: []param{context}, fails: []runnel.Code{runnel.ApprovalGone, runnel.SessionDead}}, asking(s, s.intendedChanges)),
		handle(route{path: "/api/session/{id}/git", scope: auth.Read, name: "gitStatus",
			summary: "Get the state of a session's folder in git", about: "Returns the branch, and the files of the folder that differ from the last commit. In an untrusted folder, git runs no program that the repository chooses.",
			fails: []runnel.Code{runnel.GitFailed, runnel.Timeout}}, asking(s, s.gitStatus)),
		handle(route{path: "/api/session/{id}/git/diff", scope: auth.Read, name: "gitDiff",
			summary: "Get what git says about a file", about: "Returns one of the two changes that a file may have: the staged one, or the one that is not staged.",
			params: []param{
				{name: "path", required: true, doc: "Path of the file, relative to the session's folder."},
				{name: "side", required: true, values: []string{string(changes.Staged), string(changes.Unstaged)}, doc: "staged: from the last commit to what is staged. unstaged: from what is staged to the file."},
				context,
			}, fails: refused}, asking(s, s.gitDiff)),
		handleJSON(route{path: "/api/session/{id}/git/stage", scope: changeScope, name: "gitStage",
			summary: "Stage or unstage files", about: "Returns the new state of the folder.", fails: refused}, s.gitStage),
		handleJSON(route{path: "/api/session/{id}/git/commit", scope: changeScope, name: "gitCommit",
			summary: "Commit what is staged", about: "The author is the one of the git configuration. The hooks of the repository run in a trusted folder only.", fails: refused}, s.gitCommit),
		handleJSON(route{path: "/api/session/{id}/git/revert", scope: changeScope, name: "gitRevert",
			summary: "Revert a file", about: "Gives a file the content of the last commit, and removes a file that the last commit does not have. The previous content stays as a git object for some weeks.", fails: refused}, s.gitRevert),
	})
}

// asking returns a handler that counts its requests like those for files, and
// fails if the caller has sent too many.
func asking[O any](s *sessions, h func(*http.Request) (O, error)) func(*http.Request) (O, error) {
	return func(r *http.Request) (out O, err error) {
		if err := s.count(r); err != nil {
			return out, err
		}
		return h(r)
	}
}

// maxCombining bounds the requests that combine the changes of a session at the
// same time, each of which may need some hundred megabytes.
const maxCombining = 4

func (s *sessions) listChanges(r *http.Request) (changesAnswer, error) {
	lines, err := linesAround(r)
	if err != nil {
		return changesAnswer{}, err
	}
	select {
	case s.combining <- struct{}{}:
		defer func() { <-s.combining }()
	case <-r.Context().Done():
		return changesAnswer{}, context.Cause(r.Context())
	}
	net, err := gateway.ChangesOf(s.gw).Net(r.Context(), r.PathValue("id"), r.URL.Query().Get("turn"))
	if err != nil {
		return changesAnswer{}, err
	}
	only := r.URL.Query().Get("path")
	b := diffBudget{left: maxDiffs, redact: s.redact}
	out := changesAnswer{Files: []fileDiff{}, More: net.More()}
	for _, f := range net.Files(lines) {
		if only == "" || f.Path == only || f.MovedTo == only {
			out.Files = append(out.Files, b.file(f, only != ""))
		}
	}
	return out, nil
}

func (s *sessions) intendedChanges(r *http.Request) (intendedAnswer, error) {
	lines, err := linesAround(r)
	if err != nil {
		return intendedAnswer{}, err
	}
	list, err := gateway.ChangesOf(s.gw).Intended(r.Context(), r.PathValue("id"), r.PathValue("approvalId"), lines)
	b := diffBudget{left: maxDiffs, redact: s.redact}
	out := intendedAnswer{Files: []fileDiff{}}
	for _, c := range list {
		f := b.file(filediff.File{Path: c.Path, Kind: c.Kind, MovedTo: c.MovedTo, Hunks: c.Hunks}, true)
		f.Added, f.Removed = filediff.Count(c.Hunks)
		f.Place, f.Lines, f.Problem = c.Place, c.Lines, c.Problem
		f.Whole = f.Place == filediff.PlaceFound || f.Place == filediff.PlaceAgent || f.Place == filediff.PlaceWhole
		out.Files = append(out.Files, f)
	}
	return out, err
}

func (s *sessions) gitStatus(r *http.Request) (changes.Status, error) {
	c := gateway.ChangesOf(s.gw)
	f, err := c.Folder(r.Context(), r.PathValue("id"))
	if err != nil {
		return changes.Status{}, err
	}
	return c.Git().Status(r.Context(), f)
}

func (s *sessions) gitDiff(r *http.Request) (fileDiff, error) {
	lines, err := linesAround(r)
	if err != nil {
		return fileDiff{}, err
	}
	side := changes.Side(r.URL.Query().Get("side"))
	if side != changes.Staged && side != changes.Unstaged {
		return fileDiff{}, reply.Invalid("side: unknown value; want staged or unstaged")
	}
	c := gateway.ChangesOf(s.gw)
	f, err := c.Folder(r.Context(), r.PathValue("id"))
	if err != nil {
		return fileDiff{}, err
	}
	d, err := c.Git().Diff(r.Context(), f, r.URL.Query().Get("path"), side, lines)
	if err != nil {
		return fileDiff{}, err
	}
	b := diffBudget{left: maxDiffs, redact: s.redact}
	out := b.file(d.File, true)
	out.Binary, out.OldMode, out.NewMode, out.Seen = d.Binary, d.OldMode, d.NewMode, d.Seen
	out.Cut = out.Cut || d.Cut
	out.Whole = !d.Binary && !out.Cut
	return out, nil
}

func (s *sessions) gitStage(r *http.Request, in stageRequest) (changes.Status, error) {
	if in.Staged == nil {
		return changes.Status{}, reply.Invalid("staged: is missing; want true or false")
	}
	c := gateway.ChangesOf(s.gw)
	f, err := c.Folder(r.Context(), r.PathValue("id"))
	if err != nil {
		return changes.Status{}, err
	}
	files := make([]changes.Choice, len(in.Files))
	for i, one := range in.Files {
		files[i] = changes.Choice{Path: one.Path, Seen: one.Seen}
	}
	if err := c.Git().Stage(whole(r), f, files, *in.Staged); err != nil {
		return changes.Status{}, err
	}
	return c.Git().Status(r.Context(), f)
}

func (s *sessions) gitCommit(r *http.Request, in commitRequest) (changes.Committed, error) {
	c := gateway.ChangesOf(s.gw)
	f, err := c.Folder(r.Context(), r.PathValue("id"))
	if err != nil {
		return changes.Committed{}, err
	}
	return c.Git().Commit(whole(r), f, in.Message, in.Seen)
}

func (s *sessions) gitRevert(r *http.Request, in revertRequest) (changes.Reverted, error) {
	c := gateway.ChangesOf(s.gw)
	f, err := c.Folder(r.Context(), r.PathValue("id"))
	if err != nil {
		return changes.Reverted{}, err
	}
	return c.Git().Revert(whole(r), f, in.Path, in.Seen, in.LosesUnstaged)
}

// whole returns a context for a change of a folder. If the client disconnects,
// the change still ends in an orderly way, within its own limits of time.
func whole(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }

func linesAround(r *http.Request) (int, error) {
	n, err := reply.Number(r, "context", contextLines)
	return int(min(n, maxContext)), err
}

// A diffBudget bounds the diffs of an answer, and removes secrets from them.
type diffBudget struct {
	left   int // bytes
	redact func(string) string
}

// file converts a combined change. If the budget does not suffice, it leaves out
// the diff, or only its end if cut is true.
func (b *diffBudget) file(f filediff.File, cut bool) fileDiff {
	out := fileDiff{
		Path: b.redact(f.Path), Kind: f.Kind, MovedTo: b.redact(f.MovedTo), Hunks: []event.Hunk{}, Newline: f.Newline,
		Whole: f.Whole, Outside: f.Outside, Omitted: f.Omitted, Added: f.Added, Removed: f.Removed,
	}
	size := weightOf(f.Hunks)
	for _, st := range f.Steps {
		size += weightOf(st.Hunks)
	}
	if size > b.left && !cut {
		out.Omitted, out.Whole = true, false
		return out
	}
	if out.Hunks, out.Cut = b.hunks(f.Hunks); out.Cut {
		out.Whole = false
	}
	for _, st := range f.Steps {
		var stepCut bool
		step := event.Change{Path: b.redact(st.Path), Kind: st.Kind, MovedTo: b.redact(st.MovedTo)}
		if len(st.Hunks) == 0 && st.NewText != nil {
			st.Hunks = filediff.Hunks("", *st.NewText, 0)
		}
		step.Hunks, stepCut = b.hunks(st.Hunks)
		out.Steps, out.Cut = append(out.Steps, step), out.Cut || stepCut
	}
	return out
}

// hunks returns the hunks that fit into the budget, and whether some are cut.
func (b *diffBudget) hunks(list []event.Hunk) (out []event.Hunk, cut bool) {
	out = []event.Hunk{}
	for _, h := range list {
		n := 0
		for n < len(h.Lines) && b.left >= len(h.Lines[n])+perLine {
			b.left -= len(h.Lines[n]) + perLine
			n++
		}
		if n < len(h.Lines) {
			b.left, cut = 0, true
			h = filediff.Cut(h, n)
		}
		if n > 0 {
			out = append(out, filediff.Redact(h, b.redact, marker))
		}
		if cut {
			break
		}
	}
	return out, cut
}

func weightOf(list []event.Hunk) (size int) {
	for _, h := range list {
		for _, l := range h.Lines {
			size += len(l) + perLine
		}
	}
	return size
}
