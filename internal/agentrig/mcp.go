package agentrig

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// MCPServer is the environment variable that makes a test binary an MCP server;
// see [ServeMCP].
const MCPServer = "RUNNEL_TEST_MCP_SERVER"

// ServeMCP serves MCP on standard input and output if MCPServer is set, and
// reports whether it did. TestMain calls it first.
func ServeMCP() bool {
	if os.Getenv(MCPServer) == "" {
		return false
	}
	serveMCP(os.Stdin, os.Stdout)
	return true
}

// MCP adds an MCP server named t to the options. The server is the test binary.
func (r *Rig) MCP() {
	r.T.Helper()
	self, err := os.Executable()
	if err != nil {
		r.T.Fatal(err)
	}
	link := filepath.Join(filepath.Dir(r.Home.Dir), "mcp-server") // recordings contain this name
	if err := os.Symlink(self, link); err != nil {
		r.T.Fatal(err)
	}
	r.Opt.MCPServers, err = json.Marshal(map[string]any{"t": map[string]any{
		"type": "stdio", "command": link, "args": []string{}, "env": map[string]string{MCPServer: "1"},
	}})
	if err != nil {
		r.T.Fatal(err)
	}
}

// serveMCP runs an MCP server with two tools: "add" returns a sum, "form" asks
// the user.
func serveMCP(in *os.File, out *os.File) {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	type object = map[string]any
	text := func(s string) object { return object{"content": []object{{"type": "text", "text": s}}} }
	var asking json.RawMessage
	for {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string         `json:"name"`
				Version   string         `json:"protocolVersion"`
				Arguments map[string]any `json:"arguments"`
			} `json:"params"`
			Result json.RawMessage `json:"result"`
		}
		if dec.Decode(&m) != nil {
			return
		}
		reply := func(id json.RawMessage, result any) {
			_ = enc.Encode(object{"jsonrpc": "2.0", "id": id, "result": result})
		}
		schema := object{"type": "object", "properties": object{"a": object{"type": "number"}}}
		switch m.Method {
		case "initialize":
			reply(m.ID, object{"protocolVersion": m.Params.Version, "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "t", "version": "1"}})
		case "tools/list":
			reply(m.ID, object{"tools": []object{
				{"name": "add", "description": "Adds.", "inputSchema": schema}, {"name": "form", "description": "Asks.", "inputSchema": schema},
			}})
		case "tools/call":
			if m.Params.Name == "add" {
				r := text("42")
				r["structuredContent"] = object{"sum": 42}
				reply(m.ID, r)
				continue
			}
			asking = m.ID
			_ = enc.Encode(object{"jsonrpc": "2.0", "id": "e1", "method": "elicitation/create", "params": object{
				"message": "Your name?", "requestedSchema": object{"type": "object", "properties": object{"name": object{"type": "string"}}, "required": []string{"name"}},
			}})
		case "":
			if asking != nil {
				reply(asking, text("said "+string(m.Result)))
				asking = nil
			}
		default:
			if m.ID != nil {
				reply(m.ID, object{})
			}
		}
	}
}
