package acp

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/runnel-dev/runnel/internal/agentconn"
)

// A contextFormat matches the setting of an agent that names the files for the
// model, and the names in the setting.
type contextFormat struct{ setting, name *regexp.Regexp }

// contextFormats are the formats of Gemini CLI and Qwen Code (one name or a
// list), and of Codex.
var contextFormats = []contextFormat{
	{regexp.MustCompile(`"(?:fileName|contextFileName)"\s*:\s*("(?:[^"\\]|\\.)*"|\[[^\]]*\])`), regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)},
	{regexp.MustCompile(`\bproject_doc_fallback_filenames\s*=\s*(\[[^\]]*\])`), regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^'\n]*'`)},
}

// contextNames returns the names that settings files give to the files for the
// model. It leaves out names that lead out of a
// folder. ok is false if one of the files exists and cannot be read, or is too
// large.
func contextNames(settings []string) (names []string, ok bool) {
	for _, path := range settings {
		f, st, err := agentconn.OpenPlain(os.OpenFile, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, false
		}
		data, err := io.ReadAll(io.LimitReader(f, maxSettings))
		f.Close()
		if err != nil || st.Size() > maxSettings {
			return nil, false
		}
		for _, f := range contextFormats {
			for _, setting := range f.setting.FindAllSubmatch(data, -1) {
				for _, quoted := range f.name.FindAll(setting[1], -1) {
					name := strings.Trim(string(quoted), "'")
					if err := json.Unmarshal(quoted, &name); (err == nil || quoted[0] == '\'') && filepath.IsLocal(name) {
						names = append(names, filepath.ToSlash(filepath.Clean(name)))
					}
				}
			}
		}
	}
	return names, true
}

// settingsIn returns the paths of the settings that an agent with the
// environment env reads. folder is the agent's folder in the home directory,
// homes are the variables that replace the home directory or that folder, and
// system is the folder of the settings for all users.
func settingsIn(env []string, folder string, homes []string, system string) []string {
	paths := []string{
		inHome(folder, "settings.json")(env),
		filepath.Join(system, "settings.json"), filepath.Join(system, "system-defaults.json"),
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		for _, home := range homes {
			if name == home && value != "" {
				paths = append(paths, filepath.Join(value, "settings.json"), filepath.Join(value, folder, "settings.json"))
			}
		}
	}
	return paths
}
