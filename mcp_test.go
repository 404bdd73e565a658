package runnel

import (
	"strings"
	"testing"
)

func TestCheckMCPNameRejectsUnsafeNames(t *testing.T) {
	for _, name := range []string{"", "-x", "--help", "a b", "a\tb", "a\nb", "a\x1b[2Jb", "a\x00", "a\u202eb", "a\u00a0b", "\xff", strings.Repeat("a", 129)} {
		if err := CheckMCPName(name); Safe(err) == nil || Safe(err).Code != InvalidRequest {
			t.Errorf("%q: got %v", name, err)
		}
	}
	for _, name := range []string{"a", "context7", "my-server_2", "plugin:x.y", "größe", strings.Repeat("a", 128)} {
		if err := CheckMCPName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestMCPAddressHasOnlySchemeAndHost(t *testing.T) {
	for raw, want := range map[string]string{
		"https://user:pw@example.com:8443/s/secret?key=secret#secret": "https://example.com:8443",
		"secret": "", "": "", "https://exa mple/secret": "",
	} {
		if got := MCPAddress(raw); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
}
