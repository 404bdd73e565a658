package codex

import (
	"errors"
	"regexp"
	"strings"
	"sync"
)

// A modelProvider is the API that the user's configuration selects, as far as a
// broker needs to know it.
type modelProvider struct {
	id     string // such as openai
	base   string // "" for the provider's own address
	envKey string // variable with the key; "" if the agent logs in with the key
}

// openAI is the model provider of a configuration that selects none.
const openAI = "openai"

// plainID matches the ids of model providers that can stand in the name of a
// setting on the command line.
var plainID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`) })

// selectedProvider returns the model provider that a configuration file selects.
// The error says why a broker cannot serve it, for people.
func selectedProvider(config []byte) (modelProvider, error) {
	set := tomlStrings(config)
	p := modelProvider{id: openAI}
	if id, ok := set["model_provider"]; ok {
		p.id = id.text
	}
	if name, ok := set["profile"]; ok {
		if id, ok := set["profiles."+name.text+".model_provider"]; ok {
			p.id = id.text
		}
	}
	for _, table := range []string{"model_providers", "model_providers." + p.id, "profiles"} {
		if _, ok := set[table]; ok {
			return p, errors.New("the setting " + table + " of Codex is an inline table, which runnel does not read; write it as [" + table + "]")
		}
	}
	if p.id == openAI {
		p.base = set["openai_base_url"].text
		return p, nil
	}
	if !plainID().MatchString(p.id) {
		return p, errors.New("the name of Codex's model provider has other characters than letters, digits, _ and -")
	}
	return p, p.own(set)
}

// own reads the table of a model provider that the user has added.
func (p *modelProvider) own(set map[string]tomlValue) error {
	prefix, found := "model_providers."+p.id+".", false
	for key := range set {
		name, ok := strings.CutPrefix(key, prefix)
		if found = found || ok; !ok {
			continue
		}
		switch first, _, _ := strings.Cut(name, "."); first {
		case "experimental_bearer_token", "http_headers", "env_http_headers", "query_params", "auth", "aws":
			return errors.New("the model provider " + p.id + " of Codex has the setting " + first + ", which may be a credential that a broker does not replace")
		}
	}
	if !found {
		return errors.New("the model provider " + p.id + " of Codex has no settings with an address and a key")
	}
	p.base, p.envKey = set[prefix+"base_url"].text, set[prefix+"env_key"].text
	switch {
	case p.base == "":
		return errors.New("the model provider " + p.id + " of Codex has no base_url")
	case p.envKey == "" && set[prefix+"requires_openai_auth"].raw != "true":
		return errors.New("the model provider " + p.id + " of Codex has no env_key, so it uses no API key")
	}
	return nil
}

// A tomlValue is a value in a configuration file. text is set for strings only.
type tomlValue struct{ raw, text string }

// tomlStrings returns the values of a TOML file by their full keys. It reads
// what settings of model providers consist of: tables, dotted and quoted keys,
// and strings in one line. It skips strings of several lines. Of other values it
// returns the first line.
func tomlStrings(file []byte) map[string]tomlValue {
	out, table, open := make(map[string]tomlValue), "", ""
	for line := range strings.Lines(string(file)) {
		if open != "" { // in a string of several lines
			if strings.Contains(line, open) {
				open = ""
			}
			continue
		}
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok && !strings.Contains(strings.SplitN(line, "#", 2)[0], "=") {
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "["), "]")
			table = tomlKey(name) + "."
			continue
		}
		key, value, ok := tomlPair(line)
		if !ok {
			continue
		}
		for _, quotes := range []string{`"""`, `'''`} {
			if rest, ok := strings.CutPrefix(value, quotes); ok && !strings.Contains(rest, quotes) {
				open = quotes
			}
		}
		out[table+key] = tomlValue{raw: tomlBare(value), text: tomlText(value)}
	}
	return out
}

// tomlPair splits a line at the "=" that is not in a quoted key.
func tomlPair(line string) (key, value string, ok bool) {
	var quote byte
	for i := range len(line) {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			return "", "", false
		case c == '=':
			return tomlKey(line[:i]), strings.TrimSpace(line[i+1:]), true
		}
	}
	return "", "", false
}

// tomlKey returns a key without quotes and white space around its parts.
func tomlKey(key string) string {
	parts := strings.Split(key, ".")
	for i, p := range parts {
		parts[i] = strings.Trim(strings.TrimSpace(p), `"'`)
	}
	return strings.Join(parts, ".")
}

// tomlBare returns a value without a comment, if it is not a string.
func tomlBare(value string) string {
	value, _, _ = strings.Cut(value, "#")
	return strings.TrimSpace(value)
}

// tomlText returns the text of a string in one line; "" for other values, and
// for strings with escapes.
func tomlText(value string) string {
	for _, quote := range []string{`"`, `'`} {
		if rest, ok := strings.CutPrefix(value, quote); ok {
			text, _, closed := strings.Cut(rest, quote)
			if closed && !strings.Contains(text, `\`) {
				return text
			}
		}
	}
	return ""
}
