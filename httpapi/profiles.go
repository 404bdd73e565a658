package httpapi

import (
	"cmp"
	"maps"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
)

// A profileAnswer is a profile with its whole text.
type profileAnswer struct {
	Profile gateway.Profile `json:"profile"`
	Text    string          `json:"text" doc:"Text that is appended to the agent's system prompt."`
}

// profiles holds the handlers of the routes about profiles.
type profiles struct{ gw *gateway.Gateway }

func (p *profiles) routes() []route {
	project := []param{{name: "projectDir", doc: "Absolute path of a project's directory. Its own profiles are included if the directory is trusted. Default: only the server's profiles."}}
	fails := []runnel.Code{runnel.WorkingRootInaccessible, runnel.WorkingRootConflict}
	return []route{
		handle(route{path: "/api/profiles", scope: auth.Read, bound: true, name: "listProfiles", params: project,
			summary: "List profiles", about: "An invalid profile is listed with its error.", fails: fails}, p.list),
		handle(route{path: "/api/profiles/{name}", scope: auth.Read, bound: true, name: "getProfile",
			summary: "Get a profile and its text", params: project, fails: append(fails, runnel.PersonaNotFound)}, p.get),
	}
}

func (p *profiles) list(r *http.Request) (gateway.Profiles, error) {
	dir, err := projectOf(r)
	if err != nil {
		return gateway.Profiles{}, err
	}
	return p.gw.Profiles(dir)
}

func (p *profiles) get(r *http.Request) (profileAnswer, error) {
	dir, err := projectOf(r)
	if err != nil {
		return profileAnswer{}, err
	}
	found, text, err := p.gw.Profile(dir, r.PathValue("name"))
	return profileAnswer{found, text}, err
}

// projectOf returns the project directory that a request is about. For a
// credential that is bound to a project, that project is the default and any
// other directory an error.
func projectOf(r *http.Request) (string, error) {
	return access.Home(r.Context(), cmp.Or(r.URL.Query().Get("projectDir"), access.Caller(r.Context()).Project))
}

// describeChoices adds the options that the server applies, and not the agent,
// to the schemas of a session's and a turn's options.
func describeChoices(session, turn, governance *huma.Schema) {
	both := map[string]*huma.Schema{
		"persona":            {Type: huma.TypeString, Description: "Name of a profile; GET /api/profiles lists them. Default: for a new session the server's default profile, for a turn the profile of its session."},
		"subagentGovernance": governance,
	}
	maps.Copy(session.Properties, both)
	maps.Copy(turn.Properties, both)
	session.Properties["delegation"] = &huma.Schema{
		Type: huma.TypeString, Enum: []any{gateway.Governed, gateway.ByAgent},
		Description: "Who decides whether the agent may start subagents: the gates, or the agent. Default: governed on the harness routes, agent elsewhere.",
	}
	session.Properties["worktree"] = &huma.Schema{
		Type: huma.TypeBoolean, Description: "Whether the session gets a git worktree of its own, in which its agent works. Default: false, and the agent works in projectDir.",
	}
}
