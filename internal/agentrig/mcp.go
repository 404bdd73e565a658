package agentrig

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// MCPServer is the environment variable that makes a test binary an MCP server;
// see [ServeMCP].
const MCPServer = "RUNNEL_TEST_MCP_SERVER"

// mcpMarks is the environment variable with the directory in which the MCP
// server creates the files of [Marks].
const mcpMarks = "RUNNEL_TEST_MCP_MARKS"

// Marks are the paths of the files that an MCP server creates.
type Marks struct {
	Listed string // after the server has listed its tools
	Called string // when its tool "add" is called
}

// ServeMCP serves MCP on standard input and output if MCPServer is set, and
// reports whether it did. TestMain calls it first.
func ServeMCP() bool {
	if os.Getenv(MCPServer) == "" {
		return false
	}
	serveMCP(os.Stdin, os.Stdout, os.Getenv(mcpMarks))
	return true
}

// MCP adds an MCP server named t to the options. The server is the test binary.
func (r *Rig) MCP() { r.T.Helper(); r.mcp(map[string]string{MCPServer: "1"}) }

// MarkedMCP is like MCP for a server that creates the returned files.
func (r *Rig) MarkedMCP() Marks {
	r.T.Helper()
	dir, marks := r.marks()
	r.mcp(map[string]string{MCPServer: "1", mcpMarks: dir})
	return marks
}

// MarkedHTTPMCP is like MarkedMCP for a server that the agent reaches over
// HTTP. The end of the test stops the server.
func (r *Rig) MarkedHTTPMCP() Marks {
	r.T.Helper()
	dir, marks := r.marks()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var out bytes.Buffer
		if serveMCP(req.Body, &out, dir); out.Len() == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out.Bytes())
	}))
	r.T.Cleanup(server.Close)
	r.servers(map[string]any{"type": "http", "url": server.URL + "/mcp"})
	return marks
}

// marks returns the files of a marked server, and their new directory.
func (r *Rig) marks() (dir string, m Marks) {
	r.T.Helper()
	dir = filepath.Join(r.Home.Dir, "mcp-marks")
	if err := os.Mkdir(dir, 0o700); err != nil {
		r.T.Fatal(err)
	}
	return dir, Marks{Listed: filepath.Join(dir, "listed"), Called: filepath.Join(dir, "called")}
}

func (r *Rig) mcp(env map[string]string) {
	r.T.Helper()
	self, err := os.Executable()
	if err != nil {
		r.T.Fatal(err)
	}
	link := filepath.Join(filepath.Dir(r.Home.Dir), "mcp-server") // recordings contain this name
	if err := os.Symlink(self, link); err != nil {
		r.T.Fatal(err)
	}
	r.servers(map[string]any{"type": "stdio", "command": link, "args": []string{}, "env": env})
}

// servers sets the option mcpServers to one server, t.
func (r *Rig) servers(server map[string]any) {
	r.T.Helper()
	var err error
	if r.Opt.MCPServers, err = json.Marshal(map[string]any{"t": server}); err != nil {
		r.T.Fatal(err)
	}
}

// serveMCP runs an MCP server with two tools: "add" returns a sum, "form" asks
// the user. If marks is not empty, the server creates the files of [Marks] in
// that directory.
func serveMCP(in io.Reader, out io.Writer, marks string) {
	mark := func(name string) {
		if marks != "" {
			_ = os.WriteFile(filepath.Join(marks, name), nil, 0o600) // without the file, the test fails
		}
	}
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
			mark("listed")
		case "tools/call":
			if m.Params.Name == "add" {
				mark("called")
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
