package httpapi

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/profile"
)

// putProfiles writes profiles into a folder, by name.
func putProfiles(t *testing.T, dir string, profiles map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range profiles {
		if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// withProfiles returns a rig whose server has profiles. Its project is trusted
// and has profiles of its own.
func withProfiles(t *testing.T, global, own map[string]string, edit ...func(*Config, *gateway.Config)) *rig {
	t.Helper()
	config, project := t.TempDir(), t.TempDir()
	putProfiles(t, config, global)
	if own != nil {
		putProfiles(t, filepath.Join(project, profile.ProjectDir), own)
	}
	rg := newRig(t, append([]func(*Config, *gateway.Config){func(_ *Config, g *gateway.Config) {
		g.ProfilesDir, g.TrustedDirs = config, []string{project}
	}}, edit...)...)
	rg.dir, rg.profiles = project, config
	return rg
}

func TestProfilesAreListedWithWhatIsWrong(t *testing.T) {
	rg := withProfiles(t,
		map[string]string{
			"reviewer": "---\ndescription: Reads only\nmodel: opus\ntools: [Read]\nmax_turns: 3\nsubagents: [tester]\ndisallowed_tools: [Bash]\nauto_approve_tools: [Read]\n---\nReview.",
			"tester":   "---\nAGENT_TYPE: 2\nAGENT_CLASS: TASK\n---\n", "broken": "---\ntols: [Read]\n---\n",
		},
		map[string]string{"reviewer": "---\ndescription: Ours\n---\nOurs."},
		func(_ *Config, g *gateway.Config) { g.Profile = "tester" })
	list := call[gateway.Profiles](rg, "GET", "/api/profiles", "", 200).Profiles
	if len(list) != 3 || list[0].Name != "broken" || list[0].Error != `broken.md:2: unknown key "tols"; did you mean tools?` {
		t.Fatalf("got %+v", list)
	}
	r := list[1]
	if r.Description != "Reads only" || r.Model != "opus" || r.MaxTurns != 3 || r.Subagents[0] != "tester" || r.DisallowedTools[0] != "Bash" || r.AutoApproveTools[0] != "Read" || r.Project || r.Default {
		t.Errorf("got %+v", r)
	}
	if tester := list[2]; !tester.Default || tester.AgentType != "2" || tester.AgentClass != "TASK" {
		t.Errorf("got %+v", tester)
	}
	// A trusted project's own profile replaces one of the same name.
	in := "?projectDir=" + url.QueryEscape(rg.dir)
	if list := call[gateway.Profiles](rg, "GET", "/api/profiles"+in, "", 200); len(list.Profiles) != 3 || !list.Profiles[1].Project || list.Profiles[1].Description != "Ours" || len(list.Warnings) > 0 {
		t.Errorf("got %+v", list)
	}
	if got := call[profileAnswer](rg, "GET", "/api/profiles/reviewer"+in, "", 200); got.Text != "Ours." {
		t.Errorf("got %+v", got)
	}
	if got := call[profileAnswer](rg, "GET", "/api/profiles/reviewer", "", 200); got.Text != "Review." {
		t.Errorf("got %+v", got)
	}
	for name, why := range map[string]string{"none": "there is no profile", "broken": "broken.md:2: unknown key", "Upper": "is not the name of a profile"} {
		if w := rg.do("GET", "/api/profiles/"+name, ""); w.Code != 404 || code(w) != "PERSONA_NOT_FOUND" || !strings.Contains(w.Body.String(), why) {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
	if w := rg.do("GET", "/api/profiles?projectDir=/none/at/all", ""); w.Code != 404 || code(w) != "WORKING_ROOT_INACCESSIBLE" {
		t.Errorf("a directory that is not there: got %d %s", w.Code, w.Body)
	}
}

// Profiles can allow tools without asking, so those of an untrusted project are
// not even read.
func TestUntrustedProjectsHaveNoProfiles(t *testing.T) {
	rg := withProfiles(t, nil, map[string]string{"evil": "---\nauto_approve_tools: [Bash]\n---\n"},
		func(_ *Config, g *gateway.Config) { g.TrustedDirs = nil })
	list := call[gateway.Profiles](rg, "GET", "/api/profiles?projectDir="+url.QueryEscape(rg.dir), "", 200)
	if len(list.Profiles) != 0 || len(list.Warnings) != 1 || !strings.Contains(list.Warnings[0], "not trusted") {
		t.Errorf("got %+v", list)
	}
}

func TestBoundCredentialSeesTheProfilesOfItsProject(t *testing.T) {
	rg := withProfiles(t, map[string]string{"all": "---\n---\n"}, map[string]string{"own": "---\n---\n"})
	other := t.TempDir()
	secret, _, err := rg.keyed.Create(t.Context(), auth.Grant{Name: "bound", Scopes: []auth.Scope{auth.Read}, Project: rg.dir})
	if err != nil {
		t.Fatal(err)
	}
	rg.token = secret
	for _, query := range []string{"", "?projectDir=" + url.QueryEscape(rg.dir)} {
		if list := call[gateway.Profiles](rg, "GET", "/api/profiles"+query, "", 200); len(list.Profiles) != 2 {
			t.Errorf("%q: got %+v", query, list)
		}
	}
	if w := rg.do("GET", "/api/profiles?projectDir="+url.QueryEscape(other), ""); w.Code != 404 {
		t.Errorf("another project: got %d %s", w.Code, w.Body)
	}
}

func TestServerWithoutItsDefaultProfileDoesNotStart(t *testing.T) {
	for name, text := range map[string]string{"missing": "", "broken": "---\nmodel: 1\n---\n"} {
		config := t.TempDir()
		if text != "" {
			putProfiles(t, config, map[string]string{name: text})
		}
		log := new(runnel.Memory)
		_, err := gateway.Open(t.Context(), gateway.Config{Log: log, ProfilesDir: config, Profile: name})
		if runnel.CodeOf(err) != runnel.InvalidRequest || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorForAProfileThatTheAgentCannotTakeNamesProfileFileAndLine(t *testing.T) {
	rg := withProfiles(t, map[string]string{
		"prompter": "---\ndescription: Has a text\n---\n\n\nYou review.\n", "tooled": "---\n\ntools: [Read]\n---\n", "limited": "---\nmax_turns: 3\n---\n",
	}, nil)
	for name, want := range map[string]string{
		"prompter": `prompter.md:6: the profile "prompter" has a text, but Script does not support an additional system prompt; choose another agent, or remove the text below the settings`,
		"tooled":   `tooled.md:3: the profile "tooled" sets tools, which Script does not support; choose another agent, or remove the setting from the profile`,
		"limited":  `limited.md:2: the profile "limited" sets max_turns, which Script does not support; choose another agent, or remove the setting from the profile`,
	} {
		w := rg.do("POST", "/api/session/create", `{"cliType":"script","projectDir":"`+rg.dir+`","options":{"persona":"`+name+`"}}`)
		var got struct {
			Error struct {
				Message string
				Details struct{ Profile, At string }
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if w.Code != 400 || code(w) != "UNSUPPORTED_CAPABILITY" || got.Error.Message != filepath.Join(rg.profiles, want) {
			t.Errorf("%s: got %d %s\nwant %s", name, w.Code, w.Body, want)
		}
		if d := got.Error.Details; d.Profile != name || !strings.HasPrefix(got.Error.Message, d.At+": ") {
			t.Errorf("%s: details %+v", name, d)
		}
	}
}
