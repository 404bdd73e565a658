// Package plugins finds the user's plugins of Claude Code with which a folder would
// run its programs.
package plugins

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// maxFile is how many bytes of a file are read.
const maxFile = 4 << 20

// Off returns the value of the setting "enabledPlugins" that switches off the user's
// plugins with language servers, and those of which it cannot read whether they have
// any. Claude Code starts such a server, without asking, when the model edits a file,
// and many servers run programs of the folder: that for TypeScript runs
// node_modules/typescript (2.1.197, 2.1.330). Of several values of a variable in env,
// the last one counts.
func Off(env []string) map[string]bool {
	off := map[string]bool{}
	config := configDir(env)
	ofMarkets(config, env, off)
	skills := filepath.Join(config, "skills")
	entries, _ := os.ReadDir(skills) // otherwise the agent finds none either
	for _, e := range entries {
		ofFolder(filepath.Join(skills, e.Name()), "@skills-dir", off)
	}
	for _, dir := range filepath.SplitList(value(env, "CLAUDE_CODE_PLUGIN_DIRS")) {
		ofFolder(strings.TrimSpace(dir), "@inline", off)
	}
	return off
}

func configDir(env []string) string {
	if dir := value(env, "CLAUDE_CONFIG_DIR"); dir != "" {
		return dir
	}
	home := value(env, "HOME")
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	return filepath.Join(home, ".claude")
}

func value(env []string, name string) (out string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			out = v
		}
	}
	return out
}

// ofMarkets adds to off the plugins that are installed from a marketplace, or enabled.
func ofMarkets(config string, env []string, off map[string]bool) {
	root := value(env, "CLAUDE_CODE_PLUGIN_CACHE_DIR")
	if root == "" {
		root = filepath.Join(config, "plugins")
	}
	type install struct {
		Path string `json:"installPath"`
	}
	installed := translate.DecodeLenient[struct{ Plugins map[string][]install }](read(root, "installed_plugins.json")).Plugins
	enabled := translate.DecodeLenient[struct {
		Plugins map[string]json.RawMessage `json:"enabledPlugins"`
	}](read(config, "settings.json")).Plugins
	markets := translate.DecodeLenient[map[string]struct {
		Location string `json:"installLocation"`
	}](read(root, "known_marketplaces.json"))
	check := func(id string) {
		name, market, _ := strings.Cut(id, "@")
		if market == "builtin" {
			return // these have none
		}
		entry, source := inMarket(markets[market].Location, name)
		has := entry == nil || mentionsServers(entry) || source != "" && hasServers(source)
		for _, at := range installed[id] {
			has = has || hasServers(at.Path)
		}
		if has {
			off[id] = false
		}
	}
	for id := range installed {
		check(id)
	}
	for id := range enabled {
		check(id)
	}
}

// inMarket returns the entry of a plugin in the marketplace at a path, and the plugin's
// folder in it, if there is one.
func inMarket(path, name string) (entry json.RawMessage, source string) {
	if path == "" {
		return nil, ""
	}
	market := translate.DecodeLenient[struct{ Plugins []json.RawMessage }](read(path, ".claude-plugin/marketplace.json"))
	for _, p := range market.Plugins {
		of := translate.DecodeLenient[struct {
			Name   string
			Source json.RawMessage
		}](p)
		if of.Name != name {
			continue
		}
		if at := translate.DecodeLenient[string](of.Source); at != "" {
			source = filepath.Join(path, at)
		}
		return p, source
	}
	return nil, ""
}

// ofFolder adds to off the plugin in a folder. It is called as its description says, or
// else as the folder.
func ofFolder(dir, from string, off map[string]bool) {
	if !hasServers(dir) {
		return
	}
	off[filepath.Base(dir)+from] = false
	if name := translate.DecodeLenient[struct{ Name string }](read(dir, description)).Name; name != "" {
		off[name+from] = false
	}
}

// description is the file in a plugin's folder that describes the plugin.
const description = ".claude-plugin/plugin.json"

// hasServers reports whether the plugin in a folder may have language servers.
func hasServers(dir string) bool {
	if exists(filepath.Join(dir, ".lsp.json")) {
		return true
	}
	text := read(dir, description)
	return mentionsServers(text) || text == nil && exists(filepath.Join(dir, filepath.FromSlash(description)))
}

func mentionsServers(text []byte) bool { return bytes.Contains(text, []byte("lspServers")) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func read(dir, name string) []byte {
	return agentconn.ReadPlain(filepath.Join(dir, filepath.FromSlash(name)), maxFile)
}
