package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/store"
)

// The bodies of what is about callers rather than sessions.
type (
	meAnswer struct {
		Scopes []auth.Scope    `json:"scopes"`
		Kind   store.TokenKind `json:"kind" enum:"api,browser,local"`
		Name   string          `json:"name,omitempty"`

		ProjectDir string `json:"projectDir,omitempty" doc:"whose sessions are all there is for this credential"`
	}
	healthAnswer struct {
		Status  string `json:"status"`
		Version string `json:"version"`
	}
	tokenRequest struct {
		Name     string   `json:"name"`
		Scopes   []string `json:"scopes" doc:"of read, send, approve, admin"`
		LifeDays int      `json:"lifeDays,omitempty" doc:"0: until it is revoked"`

		ProjectDir string `json:"projectDir,omitempty" doc:"absolute path of a project: the token sees the sessions there, and no others"`
	}
	tokenAnswer struct {
		ID    string `json:"id"`
		Token string `json:"token" doc:"shown this once"`
	}
	tokenRow struct {
		ID         string          `json:"id"`
		Kind       store.TokenKind `json:"kind" enum:"api,browser"`
		Name       string          `json:"name"`
		Scopes     []string        `json:"scopes"`
		ProjectDir string          `json:"projectDir,omitempty"`
		CreatedAt  time.Time       `json:"createdAt"`
		LastUsedAt time.Time       `json:"lastUsedAt"`
		ExpiresAt  *time.Time      `json:"expiresAt,omitempty"`
	}
	tokensAnswer struct {
		Tokens []tokenRow `json:"tokens"`
	}
	codeAnswer struct {
		Code string `json:"code" doc:"goes into the fragment of the page's address: /#c=CODE; good once, for a minute"`
	}
)

func (s *Server) accountRoutes() []route {
	return []route{
		{method: http.MethodPost, path: "/api/login", name: "login", summary: "Turn a one-time code into a cookie and a key",
			status: http.StatusOK, in: loginRequest{}, out: loginAnswer{}, serve: s.login},
		{method: http.MethodPost, path: "/api/logout", scope: auth.Read, name: "logout", summary: "End the browser's credential",
			status: http.StatusNoContent, in: empty{}, serve: s.logout},
		give(s, route{path: "/api/me", scope: auth.Read, bound: true, name: "me", summary: "Tell what this credential may do"}, s.me),
		give(s, route{path: "/api/health", name: "health", summary: "Tell that the server runs"}, s.health),
		take(s, route{path: "/api/login/code", scope: auth.Admin, name: "createLoginCode", status: http.StatusCreated,
			summary: "Make a one-time login code"}, s.createCode),
		give(s, route{path: "/api/tokens", scope: auth.Admin, name: "listTokens", summary: "List credentials, without secrets"}, s.listTokens),
		take(s, route{path: "/api/tokens", scope: auth.Admin, name: "createToken", status: http.StatusCreated,
			summary: "Make a token for a program"}, s.createToken),
		take(s, route{path: "/api/tokens/{id}/revoke", scope: auth.Admin, name: "revokeToken",
			summary: "End a credential and every stream that relies on it"}, s.revokeToken),
		{method: http.MethodGet, path: "/metrics", scope: auth.Read, name: "metrics", summary: "Metrics in Prometheus' format",
			status: http.StatusOK, stream: "text/plain", serve: s.metrics.serve},
		{method: http.MethodGet, path: "/openapi.json", scope: auth.Read, bound: true, serve: s.serveDocument},
		{method: http.MethodGet, path: "/docs", scope: auth.Read, bound: true, serve: s.serveDocs},
	}
}

func (s *Server) me(r *http.Request) (meAnswer, error) {
	id := caller(r.Context())
	return meAnswer{id.Scopes, id.Kind, id.Name, id.Project}, nil
}

func (s *Server) health(*http.Request) (healthAnswer, error) {
	return healthAnswer{"ok", s.cfg.Version}, nil
}

func (s *Server) createCode(r *http.Request, _ empty) (codeAnswer, error) {
	code, err := s.keys.LoginCode(r.Context(), caller(r.Context()).Scopes)
	if err != nil {
		return codeAnswer{}, runnel.Fail(runnel.StoreUnavailable, "the code cannot be recorded now; see the server's log", err)
	}
	return codeAnswer{code}, nil
}

func (s *Server) createToken(r *http.Request, in tokenRequest) (tokenAnswer, error) {
	scopes, err := auth.ParseScopes(in.Scopes)
	if err != nil {
		return tokenAnswer{}, invalid("scopes: " + err.Error())
	}
	if wide := slices.IndexFunc(scopes, func(sc auth.Scope) bool { return !caller(r.Context()).Has(sc) }); wide >= 0 {
		return tokenAnswer{}, runnel.Fail(runnel.Forbidden, "a credential can make only tokens with scopes it has itself")
	}
	if in.Name == "" || len(in.Name) > 100 || in.LifeDays < 0 || in.LifeDays > 3650 {
		return tokenAnswer{}, invalid("name: 1 to 100 bytes; lifeDays: 0 to 3650")
	}
	grant := auth.Grant{Name: in.Name, Scopes: scopes, Life: time.Duration(in.LifeDays) * 24 * time.Hour}
	if in.ProjectDir != "" {
		if grant.Project, err = auth.ProjectDir(in.ProjectDir); err != nil {
			return tokenAnswer{}, invalid("projectDir: " + err.Error())
		}
	}
	secret, t, err := s.keys.Create(r.Context(), grant)
	if errors.Is(err, auth.ErrBoundAdmin) {
		return tokenAnswer{}, invalid("scopes: " + err.Error())
	} else if err != nil {
		return tokenAnswer{}, runnel.Fail(runnel.StoreUnavailable, "the token cannot be recorded now; see the server's log", err)
	}
	return tokenAnswer{t.ID, secret}, nil
}

func (s *Server) listTokens(r *http.Request) (tokensAnswer, error) {
	ts, err := s.keys.List(r.Context())
	if err != nil {
		return tokensAnswer{}, runnel.Fail(runnel.StoreUnavailable, "credentials cannot be read now; see the server's log", err)
	}
	out := tokensAnswer{Tokens: []tokenRow{}}
	for _, t := range ts {
		row := tokenRow{t.ID, t.Kind, t.Name, t.Scopes, t.Project, t.CreatedAt, t.LastUsedAt, nil}
		if !t.ExpiresAt.IsZero() {
			row.ExpiresAt = &t.ExpiresAt
		}
		out.Tokens = append(out.Tokens, row)
	}
	return out, nil
}

func (s *Server) revokeToken(r *http.Request, _ empty) (empty, error) {
	err := s.keys.Revoke(r.Context(), r.PathValue("id"))
	if errors.Is(err, store.ErrNotFound) {
		return empty{}, refuse(http.StatusNotFound, "there is no such credential")
	}
	if err != nil {
		return empty{}, runnel.Fail(runnel.StoreUnavailable, "the credential cannot be removed now; see the server's log", err)
	}
	return empty{}, nil
}
