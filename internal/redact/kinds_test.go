package redact

import (
	"strings"
	"testing"
)

// kind is a sample key, split so that no secret scanner reports this source
// file, and a text that only resembles a key of this kind.
type kind struct {
	begin, rest string
	unlike      string
}

const (
	hex64  = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	mixed  = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6kL9nP2rS5tV8xY1zA4cD7fG0iJ3kM6oQ9s" // 70 characters
	upper6 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"
)

var kinds = map[string]kind{
	"Anthropic":                  {"sk-ant-", "api03-" + mixed, "sk-ant-x"},
	"OpenAI":                     {"sk-", "proj-" + mixed, "risk-assessment-framework-document"},
	"Google API":                 {"AIza", mixed[:35], "AIza is how it begins"},
	"Google OAuth access":        {"ya29.", "a0Ab_" + mixed[:40], "ya29.short"},
	"Google OAuth client secret": {"GOCSPX-", mixed[:28], "GOCSPX-prefix"},
	"Groq":                       {"gsk_", mixed[:52], "gsk_kind_of_a_name_with_many_words_in_it_really"},
	"Hugging Face":               {"hf_", mixed[:34], "hf_hub_download(repo_id, filename, revision)"},
	"Perplexity":                 {"pplx-", mixed[:48], "pplx-embed-context-v1"},
	"Replicate":                  {"r8_", mixed[:37], "r8_reg"},
	"xAI":                        {"xai-", mixed, "xai-grok-4-fast"},
	"GitHub":                     {"ghp_", mixed[:36], "ghp_name"},
	"GitHub fine-grained":        {"github_pat_", mixed[:40], "github_pat_name"},
	"GitLab personal":            {"glpat-", mixed[:20], "glpat-x"},
	"GitLab runner":              {"glrt-", mixed[:20], "glrt-runner"},
	"GitLab trigger":             {"glptt-", hex64[:40], "glptt-x"},
	"GitLab deploy":              {"gldt-", mixed[:20], "gldt-x"},
	"GitLab CI job":              {"glcbt-", "64_" + mixed[:20], "glcbt-x"},
	"GitLab feed":                {"glft-", mixed[:20], "glft-x"},
	"GitLab SCIM":                {"glsoat-", mixed[:20], "glsoat-x"},
	"GitLab agent":               {"glagent-", mixed[:50], "glagent-x"},
	"GitLab application":         {"gloas-", mixed[:64], "gloas-x"},
	"npm":                        {"npm_", mixed[:36], "npm_config_registry_of_the_whole_company"},
	"PyPI":                       {"pypi-AgE", "IcHlwaS5vcmc" + mixed, "pypi-AgEnt"},
	"RubyGems":                   {"rubygems_", hex64[:48], "rubygems_version"},
	"Docker":                     {"dckr_pat_", mixed[:27], "dckr_pat_x"},
	"Atlassian":                  {"ATATT3", "xFfGF0" + mixed + mixed + "=1A2B3C4D", "ATATT3 is how it begins"},
	"Linear":                     {"lin_api_", mixed[:40], "lin_api_version"},
	"Figma":                      {"figd_", mixed[:40], "figd_x"},
	"Postman":                    {"PMAK-", hex64[:24] + "-" + hex64[:34], "PMAK-x"},
	"AWS":                        {"AKIA", "IOSFODNN7EXAMPLE", "XAKIAIOSFODNN7EXAMPLE"},
	"AWS session":                {"ASIA", "IOSFODNN7EXAMPLE", "ASIA-PACIFIC"},
	"DigitalOcean":               {"dop_v1_", hex64, "dop_v1_x"},
	"Vault":                      {"hvs.", mixed[:24], "hvs.py"},
	"Vault batch":                {"hvb.", mixed + mixed[:30], "hvb.py"},
	"Doppler":                    {"dp.pt.", mixed[:43], "dp.pt.x"},
	"Pulumi":                     {"pul-", hex64[:40], "pul-request"},
	"Databricks":                 {"dapi", hex64[:32], "dapiServer"},
	"PlanetScale":                {"pscale_tkn_", mixed[:43], "pscale_tkn_name"},
	"Grafana":                    {"glsa_", mixed[:32] + "_" + hex64[:8], "glsa_x"},
	"Grafana cloud":              {"glc_", mixed[:60], "glc_x"},
	"New Relic":                  {"NRAK-", upper6[:27], "NRAK-x"},
	"Sentry":                     {"sntryu_", hex64, "sntryu_x"},
	"Stripe":                     {"sk_live_", mixed[:24], "task_live_reload_of_the_page"},
	"Stripe test":                {"sk_test_", mixed[:24], "sk_test_x"},
	"Stripe restricted":          {"rk_live_", mixed[:24], "fork_live_reload_everything"},
	"Stripe webhook":             {"whsec_", mixed[:32], "whsec_x"},
	"Shopify":                    {"shpat_", hex64[:32], "shpat_x"},
	"Square":                     {"sq0atp-", mixed[:22], "sq0atp-x"},
	"SendGrid":                   {"SG.", mixed[:22] + "." + mixed[:43], "SG.Config.Loader"},
	"Twilio":                     {"SK", hex64[:32], "SKEW"},
	"Slack bot":                  {"xoxb-", "1234-5678-abcdef", "xoxb-x"},
	"Slack app":                  {"xapp-", "1-A0123456789-1234567890123-" + hex64, "xapp-x"},
	"Slack webhook":              {"hooks.slack.com/services/", "T0123456789/B0123456789/" + mixed[:24], "hooks.slack.com/services/YOUR/PATH"},
	"age":                        {"AGE-SECRET-KEY-", "1" + upper6[:58], "AGE-SECRET-KEY-FILE"},
	"Runnel":                     {"rnl_", mixed[:40], "rnl_x"},
	"JSON web token":             {"ey", "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"},
}

func TestKindsOfKeys(t *testing.T) {
	for name, k := range kinds {
		key := k.begin + k.rest
		for in, want := range map[string]string{
			key:                          Marker,
			"KEY=" + key + " next":       "KEY=" + Marker + " next",
			`{"a":"x\n` + key + `"}`:     `{"a":"x\n` + Marker + `"}`,
			`q=\u003d` + key + ",x":      `q=\u003d` + Marker + ",x",
			k.unlike + ", and more text": k.unlike + ", and more text",
			"(" + k.unlike + ")":         "(" + k.unlike + ")",
			key[:len(k.begin)+2] + " is": key[:len(k.begin)+2] + " is",
		} {
			for cut := range len(in) + 1 {
				if got := inPieces(new(Redactor), in, cut, len(in)); got != want {
					t.Fatalf("%s: %q cut at %d became %q, want %q", name, in, cut, got, want)
				}
			}
		}
	}
}

func TestEachKindHasALength(t *testing.T) {
	for _, l := range keyKinds {
		var body strings.Builder
		for i := byte(0); body.Len() < l.min; i++ { // all bytes of the class in turn
			if l.body[i] {
				body.WriteByte(i)
			}
		}
		key := l.prefix + body.String()
		if got := New().String("<" + key + ">"); got != "<"+Marker+">" {
			t.Errorf("%q became %q", key, got)
		}
		short := key[:len(key)-1]
		if got := New().String("<" + short + ">"); got != "<"+short+">" {
			t.Errorf("%q became %q", short, got)
		}
	}
}

func TestPasswordsInAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"postgres://me:hunter2@db/x":                    "postgres://me:" + Marker + "@db/x",
		"redis://:hunter2@localhost:6379/0":             "redis://:" + Marker + "@localhost:6379/0",
		`"git+https:\/\/me:hunter2@host\/x"`:            `"git+https:\/\/me:` + Marker + `@host\/x"`,
		"https://me:a:b%40c@host and https://x:yz1@h":   "https://me:" + Marker + "@host and https://x:" + Marker + "@h",
		"mongodb+srv://u:" + mixed + "@c.example.net/?": "mongodb+srv://u:" + Marker + "@c.example.net/?",

		"http://localhost:8080/me@example.org":                             "",
		"https://host:443, https://user@host":                              "",
		"ssh://git@host:22/x":                                              "",
		"https://me:$PASSWORD@host https://me:%s@host":                     "",
		"https://me:***@host https://me:<password>@host":                   "",
		"https://me:" + Marker + "@host":                                   "",
		"docker://alpine:3.19@sha256:" + hex64:                             "",
		"https://a:b@host":                                                 "",
		"a: //x:yyy@z; C:\\dir\\a:bcd@e":                                   "",
		"://" + strings.Repeat("u", maxUser+1) + ":hunter2@host":           "",
		"see https://example.org: mail me@example.org, not x://y:":         "",
		"http://me:" + strings.Repeat("p", maxPassword+1) + "@host and on": "",
	} {
		if want == "" {
			want = in
		}
		for cut := range len(in) + 1 {
			if got := inPieces(new(Redactor), in, cut, len(in)); got != want {
				t.Fatalf("%q cut at %d became %q, want %q", in, cut, got, want)
			}
		}
	}
}

func TestWebTokens(t *testing.T) {
	const header, payload = "eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0"
	for in, want := range map[string]string{
		"Cookie: a=" + header + "." + payload + ".sig-_x; b":   "Cookie: a=" + Marker + "; b",
		header + "." + payload:                                 Marker,
		header + ". " + payload:                                "",
		header + ".Payload":                                    "",
		header + "." + payload[:8] + "!":                       "",
		"x" + header + "." + payload:                           "",
		"eyJ" + strings.Repeat("a", maxPart+1) + "." + payload: "",
		"eye, eyes and eyJ":                                    "",
	} {
		if want == "" {
			want = in
		}
		for cut := range len(in) + 1 {
			if got := inPieces(new(Redactor), in, cut, len(in)); got != want {
				t.Fatalf("%q cut at %d became %q, want %q", in, cut, got, want)
			}
		}
	}
}
