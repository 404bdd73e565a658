package acp

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// floorsOf returns what Runnel adds for opencode, with these files below the home
// directory, where "project" is the folder of the session.
func floorsOf(t *testing.T, files map[string]string, mode runnel.PermissionMode, env ...string) (content string, err error) {
	t.Helper()
	home := t.TempDir()
	for path, text := range files {
		path = filepath.Join(home, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	project := filepath.Join(home, "project", "below")
	if err := os.MkdirAll(project, 0o700); err != nil {
		t.Fatal(err)
	}
	opt := runnel.Options{PermissionMode: mode, Dir: project, Trusted: true}
	env = append([]string{"HOME=" + home}, env...)
	env, err = opencodeFloors(append(env, opencodePermissions(opt)...), opt)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(env[len(env)-1], opencodeContent+"="), nil
}

const (
	floorsServers = `"*_* *":{"?":"ask"}`
	floorsRest    = `"bash *":{"*":"ask"},"edit *":{"*":"ask"},"task *":{"*":"deny"},"webfetch *":{"*":"ask"}`
	floorsPlan    = `"plan":{"permission":{"*_* *":{"?":"ask"},"bash *":{"*":"ask"},"edit *":{"*":"deny"},"task *":{"*":"deny"},"webfetch *":{"*":"ask"}}}`
)

func TestPermissionsComeBehindThoseOfEachAgentOfOpencode(t *testing.T) {
	build := `{"permission":{` + floorsServers + `,` + floorsRest + `}}`
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":    {nil, `"mode":{"build":` + build + `,` + floorsPlan + `}`},
		"agent":   {map[string]string{".config/opencode/opencode.jsonc": `{"agent":{/* mine */"mine":{"permission":"allow",},},}`}, `"mine":` + build},
		"mode":    {map[string]string{".config/opencode/config.json": `{"mode":{"ask":{"tools":{"a":true}}}}`}, `"mode":{"ask":` + build},
		"file":    {map[string]string{".opencode/agents/deep/mine.md": "---\npermission: allow\n---\nText."}, `"deep/mine":` + build},
		"named":   {map[string]string{"project/.opencode/agent/mine.md": "---\nname: other\ntools:\n  a: true\n---\n"}, `"other":` + build},
		"project": {map[string]string{"project/opencode.json": `{"agent":{"mine":{"permission":{"a":"ask"}}}}`}, `"mine":` + build},
		"denied": {map[string]string{".config/opencode/opencode.json": `{"tools":{"webfetch":false},"permission":{"bash":{"git *":"allow","*":"deny","ls":"allow"},"t_*":"deny","t_a":"allow"}}`},
			`"build":{"permission":{` + floorsServers + `,"t_* *":{"*":"deny"},"t_a *":{"*":"allow","?":"ask"},` +
				`"bash *":{"*":"deny","ls":"ask"},"edit *":{"*":"ask"},"task *":{"*":"deny"},"webfetch *":{"*":"deny"}}}`},
		"merged": {map[string]string{".config/opencode/agent/mine.md": "---\nx: &x {bash: deny, edit: allow}\npermission: {<<: *x, webfetch: deny}\n---\n"},
			`"mine":{"permission":{` + floorsServers + `,"bash *":{"*":"deny"},"edit *":{"*":"ask"},"task *":{"*":"deny"},"webfetch *":{"*":"deny"}}}`},
		"program":        {map[string]string{".config/opencode/agent/mine.md": "---js\n{}\n---\n"}, `"mine":` + build},
		"too many":       {map[string]string{".config/opencode/agent/mine.md": "---\na: &a [1,2]\npermission: &b {<<: *b}\n---\n"}, `"mine":` + build},
		"mode in folder": {map[string]string{".config/opencode/mode/deep/mine.md": "---\npermission: allow\n---\n"}, `"mode":{"build":` + build + `,` + floorsPlan + `}`},
		"same key": {map[string]string{".config/opencode/opencode.json": `{"agent":{"build":{"permission":{"bash *":"allow","bas? *":"allow","*":"allow"}}}}`},
			floorsServers + `,"ba?? *":{"*":"ask"},"edit *"`},
		"denied by all": {map[string]string{".config/opencode/opencode.json": `{"permission":"deny","agent":{"build":{"tools":{"edit":true}}}}`},
			`"build":{"permission":{` + floorsServers + `,"* *":{"*":"deny"},"bash *":{"*":"deny"},"edit *":{"*":"ask"},"task *":{"*":"deny"},"webfetch *":{"*":"deny"}}}`},
	} {
		if got, err := floorsOf(t, tt.files, runnel.ModeDefault); err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tt.want)
		}
	}
}

func TestPermissionsOfOpencodeKeepOtherContent(t *testing.T) {
	for given, want := range map[string]string{
		`{"model":"m", // mine` + "\n" + `"mode":{"build":{"prompt":"p","permission":{"edit":"deny","a":"allow"}},},}`: `"build":{"prompt":"p","permission":{"edit":"deny","a":"allow",` + floorsServers + `,"bash *":{"*":"ask"},"edit *":{"*":"deny"}`,
		`{"model":"m, }"}`: `{"model":"m, }","agent":`,
		`[]`:               "",
		`{`:                "",
	} {
		got, err := floorsOf(t, nil, runnel.ModeDefault, opencodeContent+"="+given)
		if want == "" && (runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), opencodeContent)) || want != "" && (err != nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, %v, want %s", given, got, err, want)
		}
	}
}

// A file that Runnel does not read could allow what it asks about.
func TestOpencodeDoesNotStartWithSettingsThatAreTooLarge(t *testing.T) {
	for path, text := range map[string]string{
		".config/opencode/opencode.json": `{"agent":{"mine":{"permission":"allow"}}}` + strings.Repeat(" ", maxSettings),
		".opencode/agent/mine.md":        "---\npermission: allow\n---\n" + strings.Repeat(" ", maxSettings),
	} {
		if _, err := floorsOf(t, map[string]string{path: text}, runnel.ModeDefault); runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// opencode does not ask before it writes beside the skills of its user.
func TestAcceptedEditsOfOpencodeAreThoseOfTheRepository(t *testing.T) {
	if got, err := floorsOf(t, nil, runnel.ModeAcceptEdits); err != nil || !strings.Contains(got, `"edit *":{"../*":"ask","`) || strings.Count(got, `"edit *":{"*":"deny"}`) != 1 {
		t.Errorf("%s, %v", got, err)
	}
	for _, git := range []bool{true, false} {
		r := newRig(t, "opencode")
		if git {
			r.git(r.Home.Project, "init", "-q")
		}
		skill := filepath.Join(r.Home.Dir, ".config", "opencode", "skills", "mine", "SKILL.md")
		r.put(skill, "---\nname: mine\ndescription: Mine\n---\nText.\n")
		r.Opt.PermissionMode = runnel.ModeAcceptEdits
		r.Open()
		for path, want := range map[string]int{skill: 1, r.File("made"): 0, r.File("made/../.git/hooks/pre-commit"): 1, r.File("sub/.opencode/plugin/made.js"): 1} {
			r.asks(want, r.words().Write(path, "written\n"))
		}
		r.Close()
	}
}

// Accepted edits do not include files from which programs run code.
func TestOpencodeAsksBeforeEditsOfProtectedPaths(t *testing.T) {
	own := &opencodeOwn{home: "/home/u", config: "/home/u/.config/opencode"}
	asks := func(anyCase bool, path string) bool {
		return slices.ContainsFunc(own.askedEdits(anyCase), func(r permissionRule) bool { return matches(path, r.pattern) })
	}
	for want, paths := range map[bool][]string{
		true: {
			".git/made", ".git/hooks/pre-commit", "sub/.git", "sub/.git/config", ".opencode/plugin/made.js", "home/u/project/.opencode/agent/made.md", "opencode.json", ".opencode/opencode.jsonc",
			".mcp.json", ".runnel/config.yaml", ".claude/settings.json", ".qwen/settings.json", ".vscode/tasks.json", ".github/hooks/made.json", ".env", ".husky/pre-commit",
		},
		false: {"made", "sub/made", "src/App.tsx", "style.css", "index.html", "package.json", "src/git/made", "opencode.md", "home/u/project/made.swift"},
	} {
		for _, path := range paths {
			for _, anyCase := range []bool{false, true} {
				if asks(anyCase, path) != want {
					t.Errorf("%t, %s: asked about %t, want %t", anyCase, path, !want, want)
				}
			}
		}
	}
	for _, path := range []string{".gitignore", ".github/workflows/made.yml", "sub/.GIT/config"} {
		if asks(false, path) || !asks(true, path) {
			t.Errorf("%s: asked about %t with case and %t without", path, asks(false, path), asks(true, path))
		}
	}
}

// On Linux, a folder can also be on a file system that ignores the case of names, such as
// one of Windows. Two names of one file stand for such a file system here.
func TestOpencodeAsksBeforeEditsOfProtectedPathsInAnyCase(t *testing.T) {
	r := newRig(t, "opencode")
	r.git(r.Home.Project, "init", "-q")
	r.put(r.File("made.txt"), "made\n")
	if err := os.Link(r.File("made.txt"), r.File("MADE.TXT")); err != nil {
		t.Fatal(err)
	}
	r.Opt.PermissionMode = runnel.ModeAcceptEdits
	r.Open()
	for path, want := range map[string]int{".GIT/hooks/pre-commit": 1, ".Mcp.json": 1, "sub/.ENV": 1, "sub/new.txt": 0} {
		r.asks(want, r.words().Write(r.File(path), "written\n"))
	}
}

// An agent without permissions of its own has those for all agents, which no later key
// of the user replaces.
func TestPermissionsComeBehindThoseForAllAgentsOfOpencode(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".config", "opencode"), 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(text string) {
		if err := os.WriteFile(filepath.Join(home, ".config", "opencode", "opencode.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"permission":{"bash":"allow","t_*":"deny","*":"allow"}}`)
	opt := runnel.Options{Dir: home}
	env, err := opencodeFloors(append([]string{"HOME=" + home}, opencodePermissions(opt)...), opt)
	const want = `"webfetch":"ask",` + floorsServers + `,"t_* *":{"*":"deny"},"* *":{"*":"allow","?":"ask"},` + floorsRest + `}`
	if got := strings.Join(env, " "); err != nil || !strings.Contains(got, want) {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	var rules []string
	for n := range 5000 {
		rules = append(rules, fmt.Sprintf(`"command-%d *":"deny"`, n))
	}
	put(`{"permission":{"bash":{` + strings.Join(rules, ",") + `}}}`)
	if _, err := opencodeFloors(append([]string{"HOME=" + home}, opencodePermissions(opt)...), opt); runnel.CodeOf(err) != runnel.SessionCreateFailed {
		t.Errorf("with many rules: %v", err)
	}
}

// With bypass, only the agent plan asks.
func TestNothingIsAskedAboutInModeBypassOfOpencode(t *testing.T) {
	if got, err := floorsOf(t, nil, runnel.ModeBypass); err != nil || got != `{"agent":{},"mode":{`+floorsPlan+`}}` {
		t.Errorf("%s, %v", got, err)
	}
}
