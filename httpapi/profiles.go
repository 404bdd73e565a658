package httpapi

import (
	"net/http"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
)

// profileAnswer is a profile with all of its text.
type profileAnswer struct {
	Profile gateway.Profile `json:"profile"`
	Text    string          `json:"text" doc:"added to the agent's system prompt"`
}

// profiles are the handlers of the routes about profiles.
type profiles struct{ gw *gateway.Gateway }

func (p *profiles) routes() []route {
	project := []param{{name: "projectDir", doc: "directory of a project, whose own profiles are included if it is trusted"}}
	return []route{
		handle(route{path: "/api/profiles", scope: auth.Read, bound: true, name: "listProfiles",
			summary: "List the profiles that sessions can choose, and what is wrong with the others", params: project}, p.list),
		handle(route{path: "/api/profiles/{name}", scope: auth.Read, bound: true, name: "getProfile",
			summary: "Get a profile with its text", params: project}, p.get),
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

// projectOf returns the directory that a request is about: for a credential of
// one project always that project.
func projectOf(r *http.Request) (string, error) {
	if own := access.Caller(r.Context()).Project; own != "" && r.URL.Query().Get("projectDir") == "" {
		return own, nil
	}
	return access.Home(r.Context(), r.URL.Query().Get("projectDir"))
}
