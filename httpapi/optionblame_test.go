package httpapi

import (
	"context"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/provider/script"
)

// A choosy is a provider whose agents reject the model "gone" when they start,
// and whose running agents cannot change their settings.
type choosy struct{ *able }

func (p choosy) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	if opt.Model == "gone" {
		return nil, runnel.Fail(runnel.InvalidRequest, "model: Choosy does not accept gone")
	}
	conn, err := p.able.Open(ctx, opt)
	return struct{ runnel.Conn }{conn}, err
}

// An error about an option that the client did not send names the file and the
// line that has the option, whenever the agent rejects the option.
func TestErrorOfAnAgentNamesTheFileThatHasTheOption(t *testing.T) {
	global, err := profile.Global("config.yaml", []byte("options:\n  model: gone\n"), "options")
	if err != nil {
		t.Fatal(err)
	}
	rg := withProfiles(t, map[string]string{"gone": "---\nmodel: gone\n---\n", "fine": "---\nmodel: fine\n---\n", "other": "---\nmodel: other\n---\n"}, nil,
		func(_ *Config, g *gateway.Config) {
			g.Providers, g.Options = []runnel.Provider{choosy{&able{Provider: script.New()}}}, []profile.Source{global}
		})
	post := func(when, target, body, want string) {
		t.Helper()
		if w := rg.do("POST", target, body); w.Code < 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %d %s", when, w.Code, w.Body)
		}
	}
	create := `{"cliType":"script","projectDir":"` + rg.dir + `","options":{`
	post("a new session", "/api/session/create", create+`"persona":"gone"}}`, `gone.md:2: the profile \"gone\": model: Choosy does not accept gone`)
	post("a new session without a profile", "/api/session/create", create+`}}`, `config.yaml:2: model: Choosy does not accept gone`)

	id := rg.createWith(`{"persona":"fine"}`)
	post("a turn with another profile", "/api/session/"+id+"/send", `{"content":"text","opts":{"persona":"other"}}`,
		`other.md:2: the profile \"other\": model: Script cannot change this for one turn`)
	if w := rg.do("POST", "/api/session/"+id+"/send", `{"content":"text","opts":{"model":"other"}}`); w.Code != 400 || !strings.Contains(w.Body.String(), `"message":"model: Script cannot change`) {
		t.Errorf("the client's own option: got %d %s", w.Code, w.Body)
	}

	putProfiles(t, rg.profiles, map[string]string{"fine": "---\ndescription: Fine.\nmodel: gone\n---\n"})
	const changed = `fine.md:3: the profile "fine": model: Choosy does not accept gone`
	post("boot", "/api/harness/session/boot", `{"sessionId":"`+id+`","force":true}`, strings.ReplaceAll(changed, `"`, `\"`))
	call[struct{}](rg, "POST", "/api/session/"+id+"/kill", "{}", 200)
	call[struct{}](rg, "POST", "/api/session/"+id+"/load", "{}", 200)
	if got := rg.sendWith(id, "text", `{}`); len(got) != 1 || !strings.HasSuffix(got[0], changed) {
		t.Errorf("a turn that starts the agent: got %q", got)
	}
}
