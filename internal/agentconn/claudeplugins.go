package agentconn

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel/internal/translate"
)

// ClaudePluginsOff returns the value of the setting "enabledPlugins" that switches off
// the user's plugins of Claude Code with language servers, and those of which Runnel
// cannot read whether they have any. Claude Code starts such a server, without asking,
// when the model edits a file, and many servers run programs of the folder: that for
// TypeScript runs node_modules/typescript (2.1.197, 2.1.330). Of several values of a
// variable in env, the last one counts.
func ClaudePluginsOff(env []string) map[string]bool {
	value := func(name string) (out string) {
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				out = v
			}
		}
		return out
	}
	config := value("CLAUDE_CONFIG_DIR")
	if config == "" {
		home := value("HOME")
		if home == "" {
			home, _ = os.UserHomeDir()
		}
		config = filepath.Join(home, ".claude")
	}
	root := value("CLAUDE_CODE_PLUGIN_CACHE_DIR")
	if root == "" {
		root = filepath.Join(config, "plugins")
	}
	off := map[string]bool{}

	type plugins[T any] struct{ Plugins map[string]T }
	type install struct {
		Path string `json:"installPath"`
	}
	installed := translate.DecodeLenient[plugins[[]install]](readPlugin(root, "installed_plugins.json")).Plugins
	enabled := translate.DecodeLenient[struct {
		Plugins map[string]json.RawMessage `json:"enabledPlugins"`
	}](readPlugin(config, "settings.json")).Plugins
	markets := translate.DecodeLenient[map[string]struct {
		Location string `json:"installLocation"`
	}](readPlugin(root, "known_marketplaces.json"))
	check := func(id string) {
		name, market, _ := strings.Cut(id, "@")
		if market == "builtin" {
			return // these have none
		}
		entry, source := marketEntry(markets[market].Location, name)
		has := entry == nil || bytes.Contains(entry, []byte("lspServers"))
		if source != "" {
			has = has || hasServers(source)
		}
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

	skills := filepath.Join(config, "skills")
	entries, _ := os.ReadDir(skills) // otherwise the agent finds none either
	for _, e := range entries {
		if dir := filepath.Join(skills, e.Name()); hasServers(dir) {
			switchOff(off, dir, "@skills-dir")
		}
	}
	for _, dir := range filepath.SplitList(value("CLAUDE_CODE_PLUGIN_DIRS")) {
		if dir = strings.TrimSpace(dir); hasServers(dir) {
			switchOff(off, dir, "@inline")
		}
	}
	return off
}

// switchOff switches off the plugin in a folder, which is named in its description, or
// else as the folder.
func switchOff(off map[string]bool, dir, from string) {
	off[filepath.Base(dir)+from] = false
	name := translate.DecodeLenient[struct{ Name string }](readPlugin(dir, ".claude-plugin/plugin.json")).Name
	if name != "" {
		off[name+from] = false
	}
}

// marketEntry returns the entry of a plugin in the marketplace at a path, and the
// plugin's folder in it, if there is one.
func marketEntry(path, name string) (entry json.RawMessage, source string) {
	if path == "" {
		return nil, ""
	}
	market := translate.DecodeLenient[struct {
		Plugins []json.RawMessage `json:"plugins"`
	}](readPlugin(path, ".claude-plugin/marketplace.json"))
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

// hasServers reports whether the plugin in a folder may have language servers.
func hasServers(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, ".lsp.json")); !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	path := filepath.Join(dir, ".claude-plugin", "plugin.json")
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	text := readPlugin(dir, ".claude-plugin/plugin.json")
	return text == nil || bytes.Contains(text, []byte("lspServers"))
}

// readPlugin returns the text of a file of at most 4 MiB, or nil.
func readPlugin(dir, name string) []byte {
	const most = 4 << 20
	f, st, err := OpenPlain(os.OpenFile, filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil || st.Size() > most {
		return nil
	}
	return text
}
