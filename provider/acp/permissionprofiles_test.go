package acp

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A permission profile of the user's may let commands change every file without
// asking, as full access does.
func TestPermissionProfilesOfCodexNeedBypass(t *testing.T) {
	t.Parallel()
	const wide = "permission-profile:wide"
	for name, want := range map[string]runnel.Code{"refused": runnel.InvalidRequest, "allowed": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "codex-acp")
			path := filepath.Join(r.Home.Codex, "config.toml")
			config, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			r.put(path, "default_permissions = \":workspace\"\n"+string(config)+"\n[permissions.wide.filesystem]\n\":root\" = \"write\"\n")
			r.Opt.AllowBypass = want == ""
			r.Open()
			offers := slices.ContainsFunc(r.Conn.(*conn).tr.session.settings.config, func(o event.ConfigOption) bool { return o.ID == "mode" && o.Allows(wide) })
			if !offers {
				t.Error("the agent does not offer the profile")
			}
			set := runnel.Settings{Config: map[string]string{"mode": wide}}
			if err := r.Conn.(runnel.SettingsChecker).CheckSettings(set); (err != nil) != (want != "") || err != nil && runnel.CodeOf(err) != want {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
