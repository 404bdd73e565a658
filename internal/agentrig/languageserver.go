package agentrig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// languageServer is the definition of a language server of the user that runs a
// program of the folder, as that for TypeScript runs node_modules/typescript.
const languageServer = `{"x":{"command":"sh","args":["server.sh"],"EXTENSIONS":{".x":"x"}}}`

// OffersLanguageServer makes the folder's server.sh create the file mark, and writes
// a.x, for which a language server of the user is to run it.
func (r *Rig) OffersLanguageServer() (mark string) {
	r.T.Helper()
	mark = filepath.Join(r.Home.Dir, "ran-server")
	r.Write("server.sh", "touch "+mark+"\nexit 1\n")
	r.Write("a.x", "one\n")
	return mark
}

// InstallsPlugins gives the user's Claude Code a plugin of a marketplace, one among
// the skills and one that a variable names, each with a language server.
func (r *Rig) InstallsPlugins() {
	r.T.Helper()
	market, inline, root := filepath.Join(r.Home.Dir, "market"), filepath.Join(r.Home.Dir, "inline"), filepath.Join(r.Home.Config, "plugins")
	fill := strings.NewReplacer("MARKET", r.quoted(market), "PLUGIN", r.quoted(filepath.Join(market, "one")), "SERVERS", strings.Replace(languageServer, "EXTENSIONS", "extensionToLanguage", 1)).Replace
	for path, text := range map[string]string{
		filepath.Join(market, ".claude-plugin", "marketplace.json"):                    `{"name":"shop","owner":{"name":"o"},"plugins":[{"name":"one","version":"1.0.0","source":"./one","strict":false,"lspServers":SERVERS}]}`,
		filepath.Join(market, "one", "README.md"):                                      "One.\n",
		filepath.Join(root, "known_marketplaces.json"):                                 `{"shop":{"source":{"source":"directory","path":MARKET},"installLocation":MARKET,"lastUpdated":"2026-11-30T22:55:44.788Z"}}`,
		filepath.Join(root, "installed_plugins.json"):                                  `{"version":2,"plugins":{"one@shop":[{"scope":"user","installPath":PLUGIN,"version":"1.0.0","installedAt":"2026-11-30T22:55:47.449Z","lastUpdated":"2026-11-30T22:55:47.449Z"}]}}`,
		filepath.Join(r.Home.Config, "settings.json"):                                  `{"enabledPlugins":{"one@shop":true},"extraKnownMarketplaces":{"shop":{"source":{"source":"directory","path":MARKET}}}}`,
		filepath.Join(r.Home.Config, "skills", "two", ".claude-plugin", "plugin.json"): `{"name":"two","version":"1.0.0","lspServers":SERVERS}`,
		filepath.Join(r.Home.Config, "skills", "two", "SKILL.md"):                      "---\nname: two\ndescription: Two\n---\nTwo.\n",
		filepath.Join(inline, ".claude-plugin", "plugin.json"):                         `{"name":"three","version":"1.0.0"}`,
		filepath.Join(inline, ".lsp.json"):                                             `SERVERS`,
	} {
		r.writeOwn(path, fill(text))
	}
	r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_PLUGIN_DIRS="+inline)
}

// InstallsCopilotServer gives the user's GitHub Copilot a language server.
func (r *Rig) InstallsCopilotServer() {
	r.T.Helper()
	r.writeOwn(filepath.Join(r.Home.Dir, ".copilot", "lsp-config.json"), `{"lspServers":`+strings.Replace(languageServer, "EXTENSIONS", "fileExtensions", 1)+`}`)
}

// AsksLanguageServer lets the model ask the language server about a.x. tool and file
// are the agent's names.
func (r *Rig) AsksLanguageServer(tool, file, read, path string) {
	r.T.Helper()
	r.Play(
		fakemodel.Step{Blocks: []fakemodel.Block{fakemodel.Call(read, map[string]any{path: r.File("a.x")})}},
		fakemodel.Step{Blocks: []fakemodel.Block{fakemodel.Call(tool, map[string]any{"operation": "hover", file: r.File("a.x"), "line": 1, "character": 1})}},
		fakemodel.Step{Text: "Done."},
	)
}

func (r *Rig) writeOwn(path, text string) {
	r.T.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.T.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.T.Fatal(err)
	}
}

func (r *Rig) quoted(s string) string {
	r.T.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		r.T.Fatal(err)
	}
	return string(b)
}
