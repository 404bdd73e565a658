package codex

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
)

func TestListMCPStartsNoServer(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	contacts := make(chan int)
	go func() {
		n := 0
		for {
			c, err := l.Accept()
			if err != nil {
				contacts <- n
				return
			}
			n++
			c.Close()
		}
	}()
	started := filepath.Join(t.TempDir(), "started")
	command, _ := json.Marshal(started) // a JSON string is a TOML string, too
	config := filepath.Join(codexHome(r.Opt.Env), "config.toml")
	f, err := os.OpenFile(config, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString("\n[mcp_servers.toucher]\ncommand = \"/usr/bin/touch\"\nargs = [" + string(command) + "]\nenv = { TOK = \"secret\" }\n" +
			"\n[mcp_servers.web]\nurl = \"http://" + l.Addr().String() + "/mcp\"\nbearer_token_env_var = \"ABSENT\"\n\n[mcp_servers.plain]\nurl = \"http://" + l.Addr().String() + "/secret\"\nenabled = false\n\n[mcp_servers.zero]\nurl = \"http://" + l.Addr().String() + "/mcp\"\n")
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := runnel.ListMCP(t.Context(), r.provider())
	l.Close()
	want := []runnel.MCPServer{
		{Name: "plain", Transport: "http", URL: "http://" + l.Addr().String(), Env: []string{}, Headers: []string{}},
		{Name: "toucher", Transport: "stdio", Enabled: true, Command: "/usr/bin/touch", Arguments: 1, Env: []string{"TOK"}, Headers: []string{}},
		{Name: "web", Transport: "http", Enabled: true, URL: "http://" + l.Addr().String(), Env: []string{}, Headers: []string{"Authorization"}},
		{Name: "zero", Transport: "http", Enabled: true, URL: "http://" + l.Addr().String(), Env: []string{}, Headers: []string{}},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	if _, err := os.Lstat(started); err == nil {
		t.Error("the list started a server")
	}
	if n := <-contacts; n != 0 {
		t.Errorf("the list contacted a server %d times", n)
	}
}
