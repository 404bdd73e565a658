package httpapi

import (
	"net/http"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// Numbers of conversations on a page.
const (
	conversationsDefault = 100
	conversationsMax     = 500
)

func (s *sessions) conversationRoutes() []route {
	return []route{
		handle(route{path: "/api/conversations", scope: auth.Read, bound: true, name: "listConversations",
			summary: "List stored conversations", about: "Lists the conversations that the agents of this machine have stored, newest change first, whether or not they began in Runnel. The first page waits at most 1.5 seconds for changed files and for agents that list their conversations themselves.",
			params: []param{
				{name: "cliType", doc: "Kind of agent. Default: all kinds."},
				{name: "projectDir", doc: "Absolute path of the conversations' directory. Default: all directories."},
				{name: "after", doc: "Position after which the page begins: next of the page before. Default: the first page."},
				{name: "hidden", flag: true, doc: "Whether to list also the conversations that are hidden, because their session was deleted. Loading such a conversation makes it a session again. Default: false."},
				{name: "limit", doc: "Maximum number of conversations on the page, at most 500. Default: 100."},
			}, fails: []runnel.Code{runnel.UnsupportedCLIType}}, s.listConversations),
	}
}

func (s *sessions) listConversations(r *http.Request) (gateway.ConversationPage, error) {
	limit, err := reply.Number(r, "limit", conversationsDefault)
	if err != nil {
		return gateway.ConversationPage{}, err
	}
	hidden, err := reply.Flag(r, "hidden")
	if err != nil {
		return gateway.ConversationPage{}, err
	}
	q := r.URL.Query()
	return gateway.ConversationsOf(s.gw).List(r.Context(), gateway.ConversationQuery{
		CLIType: q.Get("cliType"), ProjectDir: q.Get("projectDir"), After: q.Get("after"), Limit: int(min(max(limit, 1), conversationsMax)), Hidden: hidden,
	})
}
