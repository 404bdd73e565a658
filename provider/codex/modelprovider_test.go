package codex

import (
	"strings"
	"testing"
)

func TestSelectedProviderReadsTheConfiguration(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"none", "", "openai  "},
		{"other settings", "model = \"gpt-5.5\"\n[features]\nmodel_provider = \"nested\"\n", "openai  "},
		{"address", "openai_base_url = \"https://gw.example.com/v1\" # ours\n", "openai https://gw.example.com/v1 "},
		{"own", "model_provider = \"mine\"\n[model_providers.mine]\nname = \"Mine\"\nbase_url = 'https://x.example.com/v1'\nenv_key = \"MY_KEY\"\n", "mine https://x.example.com/v1 MY_KEY"},
		{"dotted", "model_provider=\"mine\"\nmodel_providers.mine.base_url=\"https://x.example.com\"\nmodel_providers.\"mine\".env_key = \"MY_KEY\"\n", "mine https://x.example.com MY_KEY"},
		{"login", "model_provider = \"mine\"\n[model_providers.mine]\nbase_url = \"https://x.example.com\"\nrequires_openai_auth = true # yes\n", "mine https://x.example.com "},
		{"profile", "profile = \"work\"\nmodel_provider = \"other\"\n[profiles.work]\nmodel_provider = \"mine\"\n[ model_providers . mine ]\nbase_url = \"https://x.example.com\"\nenv_key = \"MY_KEY\"\n", "mine https://x.example.com MY_KEY"},
		{"text of several lines", "developer_instructions = \"\"\"\nmodel_provider = \"no\"\n[model_providers.no]\n\"\"\"\nopenai_base_url = \"https://y.example.com\"\n", "openai https://y.example.com "},
	} {
		p, err := selectedProvider([]byte(c.config))
		if got := p.id + " " + p.base + " " + p.envKey; err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestSelectedProviderRefusesWhatABrokerCannotServe(t *testing.T) {
	const own = "model_provider = \"mine\"\n[model_providers.mine]\nbase_url = \"https://x.example.com\"\nenv_key = \"MY_KEY\"\n"
	for _, c := range []struct{ config, want string }{
		{"model_provider = \"ollama\"\n", "no settings with an address"},
		{"model_provider = \"mine\"\nmodel_providers = { mine = { base_url = \"x\" } }\n", "inline table"},
		{"model_provider = \"mine\"\n[model_providers]\nmine = { base_url = \"x\" }\n", "inline table"},
		{"model_provider = \"a b\"\n", "other characters"},
		{"model_provider = \"a\\u0062\"\n", "other characters"},
		{"model_provider = \"mine\"\n[model_providers.mine]\nname = \"x\"\n", "no base_url"},
		{"model_provider = \"mine\"\n[model_providers.mine]\nbase_url = \"https://x.example.com\"\n", "no env_key"},
		{own + "experimental_bearer_token = \"secret\"\n", "experimental_bearer_token"},
		{own + "http_headers = { X = \"secret\" }\n", "http_headers"},
		{own + "[model_providers.mine.env_http_headers]\nX = \"SECRET\"\n", "env_http_headers"},
		{own + "query_params = { key = \"secret\" }\n", "query_params"},
	} {
		if p, err := selectedProvider([]byte(c.config)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %+v, %v", c.config, p, err)
		}
	}
}

func FuzzSelectedProvider(f *testing.F) {
	f.Add([]byte("model_provider = \"mine\"\n[model_providers.mine]\nbase_url = 'x'\n"))
	f.Fuzz(func(t *testing.T, config []byte) {
		if p, err := selectedProvider(config); err == nil && p.id != openAI && !plainID().MatchString(p.id) {
			t.Errorf("the id %q", p.id)
		}
	})
}
