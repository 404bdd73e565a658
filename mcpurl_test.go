package runnel

import (
	"strings"
	"testing"
)

func atURL(raw string) MCPDefinition { return MCPDefinition{Name: "docs", URL: raw} }

func TestMCPDefinitionAcceptsURLs(t *testing.T) {
	for _, raw := range []string{
		"https://example.com", "https://example.com/mcp?key=a%20b&x=%7B", "http://127.0.0.1:8080/mcp", "http://[::1]:8080/", "https://example.com/" + strings.Repeat("a", 2000),
	} {
		d := atURL(raw)
		d.Headers, d.BearerTokenEnv = map[string]string{"X-Team": `a "b": c`}, "DOCS_TOKEN"
		if err := d.Check(); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
	d := atURL("https://example.com")
	d.Transport, d.Headers = MCPOverSSE, map[string]string{"Authorization": "Bearer x"}
	if err := d.Check(); err != nil {
		t.Error(err)
	}
}

// An error says what is wrong and contains neither the URL nor the value of a
// header.
func TestMCPDefinitionRejectsUnsafeURLsAndHeaders(t *testing.T) {
	with := func(change func(*MCPDefinition)) MCPDefinition {
		d := atURL("https://example.com/mcp")
		change(&d)
		return d
	}
	header := func(name, value string) MCPDefinition {
		return with(func(d *MCPDefinition) { d.Headers = map[string]string{name: value} })
	}
	many := make(map[string]string)
	for i := range 101 {
		many["X-"+strings.Repeat("a", i+1)] = "secret"
	}
	for _, tt := range []struct {
		d    MCPDefinition
		want string
	}{
		{atURL("ftp://example.com/secret"), "url: must begin with https:// or http://"},
		{atURL("file:///secret"), "url: must begin with"},
		{atURL("javascript:secret"), "url: must begin with"},
		{atURL("secret"), "url: must begin with"},
		{atURL("-https://example.com/secret"), "url: is not a valid URL"},
		{atURL("https://user:secret@example.com/"), "url: must not contain a user name or password"},
		{atURL("https://secret@example.com/"), "url: must not contain a user name or password"},
		{atURL("https:///secret"), "url: has no host"},
		{atURL("https://:8080/secret"), "url: has no host"},
		{atURL("https://example.com/#secret"), "url: must not contain #"},
		{atURL("https://example.com/ secret"), "url: must not contain spaces"},
		{atURL("https://example.com/\nsecret"), "url: must not contain spaces"},
		{atURL("https://example.com/\x1b[2Jsecret"), "url: must not contain spaces"},
		{atURL("https://example.com/\x00secret"), "url: must not contain spaces"},
		{atURL("https://example.com/\u202esecret"), "url: must not contain spaces"},
		{atURL("https://example.com/%zzsecret"), "url: is not a valid URL"},
		{atURL("https://example.com/" + strings.Repeat("a", 2048)), "url: has 2068 bytes; at most 2048 are allowed"},
		{with(func(d *MCPDefinition) { d.Transport = "ws" }), "transport: unknown value; want http or sse"},
		{with(func(d *MCPDefinition) { d.Command = "secret" }), "url: an MCP server with a URL has no command"},
		{with(func(d *MCPDefinition) { d.Env = map[string]string{"A": "secret"} }), "url: an MCP server with a URL has no command"},
		{with(func(d *MCPDefinition) { d.Headers = many }), "headers: 101 are too many"},
		{header("A B", "secret"), "headers: a name of a header is not valid"},
		{header("", "secret"), "headers: a name of a header is not valid"},
		{header("-H", "secret"), "headers: a name of a header is not valid"},
		{header("X:", "secret"), "headers: a name of a header is not valid"},
		{header("X-A", ""), "headers.X-A: is empty"},
		{header("X-A", " secret"), "headers.X-A: is empty, or begins or ends with a space"},
		{header("X-A", "secret\r\nX-B: 1"), "headers.X-A: must contain only printable ASCII"},
		{header("X-A", "secret\x7f"), "headers.X-A: must contain only printable ASCII"},
		{header("X-A", "sécret"), "headers.X-A: must contain only printable ASCII"},
		{header("X-A", strings.Repeat("a", 8193)), "headers.X-A: has 8193 bytes"},
		{with(func(d *MCPDefinition) { d.Headers = map[string]string{"x-a": "secret", "X-A": "secret"} }), "headers: X-A is there twice"},
		{with(func(d *MCPDefinition) { d.BearerTokenEnv = "$SECRET" }), "bearerTokenEnv: is not the name of a variable"},
		{with(func(d *MCPDefinition) {
			d.BearerTokenEnv, d.Headers = "TOKEN", map[string]string{"authorization": "secret"}
		}), "bearerTokenEnv: the headers have Authorization, too"},
		{MCPDefinition{Name: "docs", Command: "/bin/true", Headers: map[string]string{"X": "secret"}}, "url: is missing"},
		{MCPDefinition{Name: "docs", Transport: MCPOverHTTP}, "url: is missing"},
		{MCPDefinition{Name: "docs"}, "command: is empty; want the program of the MCP server, or its address as url"},
		{MCPDefinition{Name: "docs", Command: "https://example.com"}, "command: is a URL; give it as url"},
	} {
		err := tt.d.Check()
		if CodeOf(err) != InvalidRequest || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: got %v, want %q", tt.d, err, tt.want)
		}
	}
}
