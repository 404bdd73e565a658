package httpapi

import (
	"net/http"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/gateway"
)

// Request bodies of the routes for worktrees.
type (
	mergeRequest struct {
		Seen    string `json:"seen" doc:"seen of the state of the worktree that the client has shown. The request fails with CHANGES_OUTDATED if the state has changed since."`
		Message string `json:"message,omitempty" doc:"Message of a commit of all files in the worktree that are not committed. Without it, the request fails if there are any."`
	}
	removeRequest struct {
		Seen    string `json:"seen,omitempty" doc:"seen of the state of the worktree that the client has shown. The request fails with CHANGES_OUTDATED if the state has changed since. Needed with discard. Default: the state is not compared."`
		Discard bool   `json:"discard,omitempty" doc:"Whether to remove the worktree even if that loses commits or files that are not committed. Ignored files are removed in any case. Default: false."`
	}
)

// worktrees holds the handlers for the worktrees of sessions.
type worktrees struct{ sessions *sessions }

func (h worktrees) routes() []route {
	refused := []runnel.Code{runnel.GitFailed, runnel.Timeout}
	changed := append([]runnel.Code{runnel.TurnInProgress, runnel.ChangesOutdated}, refused...)
	return inTurn(&h.sessions.atOnce, []route{
		handle(route{path: "/api/session/{id}/worktree", scope: auth.Read, name: "worktreeStatus",
			summary: "Get the state of a session's worktree", about: "Returns its branch, the number of commits that the project's branch lacks, the files that are not committed, and whether the project's branch has moved. Fails with GIT_FAILED if the session has no worktree.",
			fails: refused}, asking(h.sessions, h.status)),
		handleJSON(route{path: "/api/session/{id}/worktree/merge", scope: changeScope, name: "worktreeMerge",
			summary: "Merge a session's worktree into its project", about: "Adds the commits of the worktree to the branch that is checked out in the project, and updates the project's files. If the merge conflicts, or would overwrite changes in the project that are not committed, the request fails and the project is as before. The request names the state that the person saw, and fails with CHANGES_OUTDATED if the state has changed since. Fails with TURN_IN_PROGRESS while a turn runs.",
			fails: changed}, h.merge),
		handleJSON(route{path: "/api/session/{id}/worktree/remove", scope: changeScope, name: "worktreeRemove",
			summary: "Remove a session's worktree and its branch", about: "Stops the agent. The session stays readable, and accepts no further prompts. Fails with GIT_FAILED if files or commits would be lost, unless discard is true, with CHANGES_OUTDATED if the worktree has changed since the person saw it, and with TURN_IN_PROGRESS while a turn runs.",
			fails: changed}, h.remove),
	})
}

func (h worktrees) status(r *http.Request) (changes.WorktreeStatus, error) {
	return gateway.WorktreesOf(h.sessions.gw).Status(r.Context(), r.PathValue("id"))
}

func (h worktrees) merge(r *http.Request, in mergeRequest) (changes.Merged, error) {
	return gateway.WorktreesOf(h.sessions.gw).Merge(whole(r), r.PathValue("id"), in.Message, in.Seen)
}

func (h worktrees) remove(r *http.Request, in removeRequest) (changes.Removed, error) {
	return gateway.WorktreesOf(h.sessions.gw).Remove(whole(r), r.PathValue("id"), in.Discard, in.Seen)
}
