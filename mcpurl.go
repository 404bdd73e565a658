package runnel

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// An MCPTransport is the way in which an agent reaches an MCP server at a URL.
type MCPTransport string

// The transports of MCP servers with a URL.
const (
	MCPOverHTTP MCPTransport = "http" // streamable HTTP
	MCPOverSSE  MCPTransport = "sse"
)

// maxMCPURL bounds the URL of an MCP server, in bytes.
const maxMCPURL = 2048

var mcpHeader = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,199}$`) })

// URLTransport returns the transport of a server with a URL.
func (d MCPDefinition) URLTransport() MCPTransport { return cmp.Or(d.Transport, MCPOverHTTP) }

// HasHeader reports whether d has a header with this name, in any case.
func (d MCPDefinition) HasHeader(name string) bool {
	for n := range d.Headers {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// checkURL is Check for a server with a URL.
func (d MCPDefinition) checkURL() error {
	if err := checkMCPURL(d.URL); err != nil {
		return err
	}
	switch {
	case d.URLTransport() != MCPOverHTTP && d.URLTransport() != MCPOverSSE:
		return invalidMCP("transport: unknown value; want http or sse")
	case len(d.Headers) > maxMCPWords:
		return invalidMCP("headers: %d are too many; at most %d are allowed", len(d.Headers), maxMCPWords)
	case d.BearerTokenEnv != "" && !mcpVariable().MatchString(d.BearerTokenEnv):
		return invalidMCP("bearerTokenEnv: is not the name of a variable; want letters, digits and _, such as API_TOKEN")
	case d.BearerTokenEnv != "" && d.HasHeader("Authorization"):
		return invalidMCP("bearerTokenEnv: the headers have Authorization, too; leave out one of them")
	}
	return d.checkHeaders()
}

// checkMCPURL fails if raw cannot be the URL of an MCP server. The error does
// not contain the URL.
func checkMCPURL(raw string) error {
	bad := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if len(raw) > maxMCPURL {
		return invalidMCP("url: has %d bytes; at most %d are allowed", len(raw), maxMCPURL)
	}
	if strings.ContainsFunc(raw, bad) {
		return invalidMCP("url: must not contain spaces or characters that are not printable")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return invalidMCP("url: is not a valid URL; want one such as https://example.com/mcp")
	case u.Scheme != "http" && u.Scheme != "https":
		return invalidMCP("url: must begin with https:// or http://")
	case u.User != nil:
		return invalidMCP("url: must not contain a user name or password, because programs show and log URLs; send them in a header")
	case u.Hostname() == "":
		return invalidMCP("url: has no host; want one such as https://example.com/mcp")
	case u.Fragment != "":
		return invalidMCP("url: must not contain #, because no request has the part after it")
	}
	return nil
}

func (d MCPDefinition) checkHeaders() error {
	seen := make(map[string]bool, len(d.Headers))
	for name, value := range d.Headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !mcpHeader().MatchString(name):
			return invalidMCP("headers: a name of a header is not valid; want letters, digits, - and _, such as Authorization")
		case seen[canonical]:
			return invalidMCP("headers: %s is there twice", canonical)
		case value == "" || strings.TrimSpace(value) != value:
			return invalidMCP("headers.%s: is empty, or begins or ends with a space", name)
		case len(value) > maxMCPWord:
			return invalidMCP("headers.%s: has %d bytes; at most %d are allowed", name, len(value), maxMCPWord)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			return invalidMCP("headers.%s: must contain only printable ASCII characters", name)
		}
		seen[canonical] = true
	}
	return nil
}
