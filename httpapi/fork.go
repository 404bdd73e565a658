package httpapi

import (
	"net/http"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/profile"
)

// Request and response bodies of the fork of a session.
type (
	forkRequest struct {
		TurnID string `json:"turnId,omitempty" doc:"Turn after which the new session continues. It must have ended. Default: the last turn, and then the agent must be able to copy its conversation."`
	}
	forkAnswer struct {
		SessionID string           `json:"sessionId"`
		CLIType   string           `json:"cliType"`
		Resolved  profile.Resolved `json:"resolved,omitempty" doc:"The session's resolved options by name, each with its source."`

		Draft string `json:"draft,omitempty" doc:"Text for the beginning of the first prompt, at most about 64 KiB: it quotes the turns that the agent does not know. The client lets the user edit it. Absent if the agent itself continues from a copy of its conversation."`
	}
)

func (s *sessions) fork(r *http.Request, in forkRequest) (forkAnswer, error) {
	if err := s.maySession(r); err != nil {
		return forkAnswer{}, err
	}
	forks := gateway.ForksOf(s.gw).Recorded(func(opt runnel.Options) error {
		return command.RecordFork(r.Context(), opt, r.PathValue("id"))
	})
	f, err := forks.After(r.Context(), r.PathValue("id"), in.TurnID)
	return forkAnswer{f.SessionID, f.CLIType, f.Resolved, f.Draft}, err
}
