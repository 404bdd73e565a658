package httpapi

import (
	"context"
	"net/http"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// Request bodies of the housekeeping routes.
type (
	renameRequest struct {
		Title *string `json:"title" doc:"New title: one line of at most 200 bytes. If it is empty, the session shows the agent's title again."`
	}
	archiveRequest struct {
		Archived *bool `json:"archived" doc:"Whether the session is archived."`
	}
)

func (s *sessions) housekeepingRoutes() []route {
	return inTurn(&s.atOnce, []route{ // a preview of a deletion examines the worktree
		handleJSON(route{path: "/api/session/{id}/rename", scope: auth.Send, name: "renameSession",
			summary: "Rename a session", about: "The title stays when the agent reports another title, and when the session or the server restarts. Streams receive it as session_updated with titleBy: user.",
			fails: []runnel.Code{runnel.SessionDead}}, s.rename),
		handleJSON(route{path: "/api/session/{id}/archive", scope: auth.Send, name: "archiveSession",
			summary: "Archive a session, or take it out of the archive", about: "Lists leave archived sessions out, unless they are asked for them. The session stays usable: its next turn takes it out of the archive. Fails with TURN_IN_PROGRESS while a turn runs or prompts are queued.",
			fails: []runnel.Code{runnel.SessionDead, runnel.TurnInProgress}}, s.archive),
		handle(route{path: "/api/session/{id}/deletion", scope: auth.Read, name: "previewDeletion",
			summary: "Preview the deletion of a session", about: "Returns what DELETE /api/session/{id} would free and what it would leave. Changes nothing. Fails as the deletion would, if the agent's stored conversations cannot be read.",
			fails: []runnel.Code{runnel.AgentError}}, asking(s, s.deletion)),
		handle(route{method: http.MethodDelete, path: "/api/session/{id}", scope: auth.Send, name: "deleteSession",
			summary: "Delete a session", about: "Ends the running turn and the agent with every process that it started. Then deletes the session's record, events, queued prompts, debug capture, and the uploads that only this session has used. The agent's own transcript stays; the response says where. Streams of the session end with SESSION_NOT_FOUND, and WebSocket clients that watch it receive a session:status with deleted: true. After a crash of the server the session is either whole or deleted. Fails with AGENT_ERROR and changes nothing if the agent's stored conversations cannot be read, because the conversation could then appear again in lists and in the search.",
			fails: []runnel.Code{runnel.AgentError}}, s.delete),
	})
}

// recordsDeletion returns the function with which a deletion by the caller is
// recorded in the audit log.
func recordsDeletion(ctx context.Context) func(session string) error {
	return func(session string) error {
		return access.Record(ctx, audit.Record{Kind: audit.SessionDeleted, Session: session})
	}
}

func (s *sessions) rename(r *http.Request, in renameRequest) (gateway.Status, error) {
	if in.Title == nil {
		return gateway.Status{}, reply.Invalid(`title: is missing; give the new title, or "" to show the agent's title again`)
	}
	return gateway.HousekeepingOf(s.gw).Rename(r.Context(), r.PathValue("id"), *in.Title)
}

func (s *sessions) archive(r *http.Request, in archiveRequest) (gateway.Status, error) {
	if in.Archived == nil {
		return gateway.Status{}, reply.Invalid("archived: is missing; want true or false")
	}
	return gateway.HousekeepingOf(s.gw).Archive(r.Context(), r.PathValue("id"), *in.Archived)
}

func (s *sessions) deletion(r *http.Request) (gateway.Deletion, error) {
	return gateway.HousekeepingOf(s.gw).Deletion(r.Context(), r.PathValue("id"))
}

func (s *sessions) delete(r *http.Request) (gateway.Deletion, error) {
	id, err := s.visible.Resolve(r.Context(), r.PathValue("id"))
	if err != nil {
		return gateway.Deletion{}, err
	}
	d, err := gateway.HousekeepingOf(s.gw).Recorded(recordsDeletion(r.Context())).Delete(r.Context(), id)
	gone := err == nil
	if !gone { // the session may be deleted and only its debug capture not
		_, missing := s.gw.Status(r.Context(), id)
		gone = runnel.CodeOf(missing) == runnel.SessionNotFound
	}
	if gone {
		s.streams.Deleted(id)
	}
	return d, err
}
