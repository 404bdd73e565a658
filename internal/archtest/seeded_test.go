package archtest

import (
	"strings"
	"testing"
)

// These tests show that each check reports the mistake that it is made for, and
// reports nothing else.

func TestSeededPackageMistakes(t *testing.T) {
	rows := table("| `event` | words | |\n| `store/sqlite` | keeps | `event` `store/*` |\n")
	good := []pkg{
		{Dir: "event", Documented: true},
		{Dir: "store/sqlite", Documented: true, Imports: []string{"event", "store/rows"}},
	}
	for name, c := range map[string]struct {
		pkgs []pkg
		want string
	}{
		"none":             {good, ""},
		"unlisted":         {append(good[:2:2], pkg{Dir: "misc", Documented: true}), "misc is not in"},
		"vanished":         {good[1:], "event, which is gone"},
		"forbidden import": {[]pkg{{Dir: "event", Documented: true, Imports: []string{"."}}, good[1]}, "does not let event import ."},
		"no comment":       {[]pkg{{Dir: "event"}, good[1]}, "event has no package comment"},
	} {
		want(t, name, checkPackages(rows, c.pkgs), c.want)
	}
}

func TestSeededModuleMistakes(t *testing.T) {
	rows := table("| `example.org/db` | keeps rows | `store/*` |\n")
	use := pkg{Dir: "store/sqlite", Foreign: []string{"example.org/db/driver"}}
	for name, c := range map[string]struct {
		pkgs []pkg
		want string
	}{
		"none":          {[]pkg{use}, ""},
		"used in tests": {[]pkg{{Dir: "event", TestForeign: []string{"example.org/db"}}}, ""},
		"unlisted":      {[]pkg{use, {Dir: "event", Foreign: []string{"example.org/dbx"}}}, "event imports example.org/dbx"},
		"unlisted test": {[]pkg{use, {Dir: "event", TestForeign: []string{"example.org/x"}}}, "the tests of event import"},
		"wrong folder":  {[]pkg{{Dir: "event", Foreign: []string{"example.org/db"}}}, "does not let event use"},
		"unused":        {nil, "which nothing imports"},
	} {
		want(t, name, checkModules(rows, c.pkgs), c.want)
	}
}

func TestSeededSourceMistakes(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"comment":    {"// Such as \"claude-code\".\nvar x = 1", ""},
		"string":     {`var x = "claude-code"`, "names an agent (claude)"},
		"identifier": {"func newCodexThing() {}", "names an agent (Codex)"},
		"tag doc":    {"type x struct{ A int `json:\"a\" doc:\"such as codex\"` }", ""},
		"tag":        {"type x struct{ A int `json:\"codex\" doc:\"x\"` }", "names an agent (codex)"},
		"import":     {`import _ "example.org/provider/gemini"`, "names an agent (gemini)"},
	} {
		want(t, name, checkNames("x.go", []byte("package x\n\n"+c.src+"\n")), c.want)
	}
	for name, c := range map[string]struct{ src, want string }{
		"path":      {`strings.HasPrefix(r.URL.Path, "/api/")`, ""},
		"host":      {`strings.HasPrefix(r.Host, "127.")`, "judges a host by its text"},
		"origin":    {`strings.Contains(h.Get("Origin"), "localhost")`, "judges a host by its text"},
		"remote":    {`strings.HasSuffix(r.RemoteAddr, "x")`, "judges a host by its text"},
		"pattern":   {`re.MatchString(host)`, "judges a host by its text"},
		"exact":     {`slices.Contains(allowed, host)`, ""},
		"delimiter": {`strings.Contains(host, ":")`, ""},
		"other use": {`f(r.Host)`, ""},
	} {
		want(t, name, checkHosts("x.go", []byte("package x\n\nvar _ = "+c.src+"\n")), c.want)
	}
}

func want(t *testing.T, name string, problems []string, want string) {
	t.Helper()
	got := strings.Join(problems, "\n")
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s: reported %q, want %q", name, got, want)
	}
}

func TestSeededNamesOnThePage(t *testing.T) {
	want(t, "a name", checkText("ui/src/x.tsx", []byte("const a = 1;\nif (cliType === \"claude-code\") b();\n")), "ui/src/x.tsx:2 names an agent (claude)")
	want(t, "none", checkText("ui/src/x.tsx", []byte("const a = agent.displayName;\n")), "")
}
