package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/provider/script"
)

// sandboxRule returns the body of a rule about sandboxes.
func sandboxRule(fields map[string]string) string {
	body, _ := json.Marshal(fields)
	return string(body)
}

func TestPathIsAllowedForTheSandboxesOfAProject(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has sandboxes")
	}
	rg := newRig(t)
	project, data := real(t, t.TempDir()), real(t, t.TempDir())
	link := filepath.Join(project, "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	made := call[ruleAnswer](rg, "POST", "/api/rules", sandboxRule(map[string]string{"effect": "allow", "kind": "sandbox_read", "pattern": link, "projectDir": project, "note": "models"}), 201)
	if made.Rule.ID != 1 || made.Rule.Pattern != data || made.Rule.ProjectDir != project || made.Rule.Note != "models" || made.Rule.By == "" || made.Sandboxes == nil {
		t.Errorf("made %+v", made)
	}
	list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules
	if len(list) != 1 || list[0].Kind != "sandbox_read" || list[0].Pattern != data {
		t.Errorf("listed %+v", list)
	}
	if removed := call[sandboxAnswer](rg, "DELETE", "/api/rules/1", "", 200); removed.Sandboxes == nil {
		t.Errorf("removed %+v", removed)
	}
	if list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules; len(list) != 0 {
		t.Errorf("listed %+v", list)
	}
}

// stateKeeper is a provider whose agent has state outside of projects.
type stateKeeper struct {
	*script.Provider
	state []string
}

func (stateKeeper) Name() string           { return "keeper" }
func (stateKeeper) AgentKind() string      { return "keeper" }
func (p stateKeeper) StatePaths() []string { return p.state }

func TestPathThatNoSandboxMayReachIsNotAllowed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has sandboxes")
	}
	state := filepath.Join(real(t, t.TempDir()), "state")
	rg := newRig(t, func(_ *Config, c *gateway.Config) {
		c.Providers = append(c.Providers, stateKeeper{script.New(), []string{state}})
	})
	project, data := real(t, t.TempDir()), real(t, t.TempDir())
	home := real(t, t.TempDir())
	t.Setenv("HOME", home)
	if err := os.MkdirAll(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(home, ".ssh"), filepath.Join(data, "innocent")); err != nil {
		t.Fatal(err)
	}
	for path, why := range map[string]string{
		filepath.Join(home, ".ssh"):     "no sandbox may show",
		filepath.Join(data, "innocent"): filepath.Join(home, ".ssh"),
		home:                            "contains or is part of",
		"/":                             "contains or is part of",
		"/run/docker.sock":              "/run",
		filepath.Join(data, "none"):     "does not exist",
		"data":                          "not an absolute path",
		state:                           "no sandbox may show",
		filepath.Join(state, "login"):   state,
		filepath.Dir(state):             state,
	} {
		for _, kind := range []string{"sandbox_read", "sandbox_write"} {
			body := sandboxRule(map[string]string{"effect": "allow", "kind": kind, "pattern": path, "projectDir": project})
			if got := rg.wantError("POST", "/api/rules", body, 400, runnel.InvalidRequest); !strings.Contains(got, why) {
				t.Errorf("%s %s: %q, want %q", kind, path, got, why)
			}
		}
	}
	rg.wantError("POST", "/api/rules", sandboxRule(map[string]string{"effect": "deny", "kind": "sandbox_read", "pattern": data, "projectDir": project}), 400, runnel.InvalidRequest)
	rg.wantError("POST", "/api/rules", sandboxRule(map[string]string{"effect": "allow", "kind": "sandbox_read", "pattern": data}), 400, runnel.InvalidRequest)
	if list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules; len(list) != 0 {
		t.Errorf("stored %+v", list)
	}
}

func TestSessionWithoutASandboxIsAllowedNoPath(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	body := sandboxRule(map[string]string{"effect": "allow", "kind": "sandbox_read", "pattern": real(t, t.TempDir()), "sessionId": id})
	if got := rg.wantError("POST", "/api/rules", body, 400, runnel.UnsupportedCapability); !strings.Contains(got, "without a sandbox") {
		t.Errorf("got %q", got)
	}
	none := sandboxRule(map[string]string{"effect": "allow", "kind": "sandbox_read", "pattern": "/data", "sessionId": "0192f0c1-0000-7000-8000-000000000000"})
	rg.wantError("POST", "/api/rules", none, 404, runnel.SessionNotFound)
	if record := call[gateway.DenialRecord](rg, "GET", "/api/session/"+id+"/denials", "", http.StatusOK); record.Denials == nil || len(record.Denials) != 0 {
		t.Errorf("denials %+v", record)
	}
}

// real returns a path without links.
func real(t *testing.T, path string) string {
	t.Helper()
	found, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A credential for one project must neither reach outside of the project nor
// learn which paths exist there.
func TestBoundCredentialAllowsNoPathInSandboxes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has sandboxes")
	}
	rg := newRig(t)
	id := rg.create()
	data := real(t, t.TempDir())
	rule := call[ruleAnswer](rg, "POST", "/api/rules", sandboxRule(map[string]string{"effect": "allow", "kind": "sandbox_read", "pattern": data, "projectDir": rg.dir}), 201).Rule
	secret, _, err := rg.keyed.Create(t.Context(), auth.Grant{Name: "bound", Scopes: []auth.Scope{auth.Read, auth.Approve}, Project: rg.dir})
	if err != nil {
		t.Fatal(err)
	}
	rg.token = secret
	for _, path := range []string{data, filepath.Join(data, "none")} {
		got := rg.wantError("POST", "/api/rules", sandboxRule(map[string]string{"effect": "allow", "kind": "sandbox_read", "pattern": path, "projectDir": rg.dir}), 403, runnel.Forbidden)
		if !strings.Contains(got, "for one project") {
			t.Errorf("%s: %q", path, got)
		}
	}
	rg.wantError("GET", "/api/session/"+id+"/denials", "", 403, runnel.Forbidden)
	call[any](rg, "DELETE", fmt.Sprintf("/api/rules/%d", rule.ID), "", 200) // it may take away
}
