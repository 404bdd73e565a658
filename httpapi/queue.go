package httpapi

import (
	"net/http"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// Bodies of the route that records what was seen.
type (
	seenRequest struct {
		Seq *int64 `json:"seq" doc:"Position in the log up to which somebody has seen the session. A smaller position than before changes nothing, and one after the end of the log counts as the end."`
	}
	seenAnswer struct {
		SeenSeq int64 `json:"seenSeq" doc:"Position up to which somebody has seen the session, on any device."`
	}
)

// queues handles the requests about queued prompts and unread events.
type queues struct {
	gw       *gateway.Gateway
	commands command.Commands
}

func (s queues) routes() []route {
	return []route{
		handle(route{path: "/api/session/{id}/queue", scope: auth.Read, name: "listQueue",
			summary: "List the queued prompts of a session", about: "The first prompt starts next. A prompt is queued with queue: true of POST /api/session/{id}/send."}, s.queue),
		handleJSON(route{path: "/api/session/{id}/queue", scope: auth.Send, name: "holdQueue",
			summary: "Hold or continue the queue of a session", about: "A held queue stays held when the server restarts. Cancelling a turn holds the queue, unless the request has continueQueue: true. A prompt that is sent while no turn runs starts at once, even if the queue is held.",
			fails: []runnel.Code{runnel.SessionDead}}, s.holdQueue),
		handle(route{path: "/api/session/{id}/queue/{turnId}", scope: auth.Read, name: "getQueuedPrompt",
			summary: "Get a queued prompt", about: "Returns the whole text of the prompt.", fails: []runnel.Code{runnel.PromptGone}}, s.queuedPrompt),
		handleJSON(route{path: "/api/session/{id}/queue/{turnId}", scope: auth.Send, name: "editQueuedPrompt",
			summary: "Edit or move a queued prompt", about: "The prompt keeps its attachments and its options. Fails with PROMPT_GONE, and changes nothing, if the prompt no longer waits; details.started reports whether its turn has started.",
			fails: []runnel.Code{runnel.PromptGone, runnel.SessionDead}}, s.editPrompt),
		handle(route{method: http.MethodDelete, path: "/api/session/{id}/queue/{turnId}", scope: auth.Send, name: "removeQueuedPrompt",
			summary: "Remove a queued prompt", about: "The turn of the prompt never starts, so it has no events.", fails: []runnel.Code{runnel.PromptGone, runnel.SessionDead}}, s.removePrompt),
		handleJSON(route{path: "/api/session/{id}/seen", scope: auth.Send, name: "markSeen",
			summary: "Record what was seen of a session", about: "Clients of all devices share the position: a session has unread events if its seenSeq is smaller than its lastSeq. Send it when a turn has ended or the user leaves the session, not for each event."}, s.seen),
	}
}

func (s queues) queue(r *http.Request) (gateway.Queue, error) {
	return s.commands.Queue(r.Context(), r.PathValue("id"))
}

func (s queues) holdQueue(r *http.Request, in command.HoldRequest) (gateway.Queue, error) {
	return s.commands.HoldQueue(r.Context(), r.PathValue("id"), in)
}

func (s queues) queuedPrompt(r *http.Request) (gateway.QueuedPrompt, error) {
	return gateway.QueuesOf(s.gw).Prompt(r.Context(), r.PathValue("id"), r.PathValue("turnId"))
}

func (s queues) editPrompt(r *http.Request, in command.EditPromptRequest) (gateway.Queue, error) {
	return s.commands.EditPrompt(r.Context(), r.PathValue("id"), r.PathValue("turnId"), in)
}

func (s queues) removePrompt(r *http.Request) (gateway.Queue, error) {
	return s.commands.RemovePrompt(r.Context(), r.PathValue("id"), r.PathValue("turnId"))
}

func (s queues) seen(r *http.Request, in seenRequest) (seenAnswer, error) {
	if in.Seq == nil || *in.Seq < 0 {
		return seenAnswer{}, reply.Invalid("seq: is missing or negative; give the position of the last event that was seen")
	}
	seq, err := gateway.HousekeepingOf(s.gw).Seen(r.Context(), r.PathValue("id"), *in.Seq)
	return seenAnswer{seq}, err
}
