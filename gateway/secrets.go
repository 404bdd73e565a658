package gateway

import (
	"encoding/json"

	"github.com/runnel-dev/runnel"
)

// A Sealer encrypts secrets for the catalogue. Its methods may be called from
// anywhere.
type Sealer interface {
	// Seal returns plain, encrypted, as text.
	Seal(plain []byte) string
	// Open returns what was sealed. Its error says what to do.
	Open(sealed string) ([]byte, error)
}

// encodeOptions returns a session's options as the catalogue keeps them. The
// definitions of MCP servers hold credentials: a Sealer makes them one sealed
// text.
func encodeOptions(s Sealer, opt runnel.Options) (json.RawMessage, error) {
	if len(opt.MCPServers) > 0 && s != nil {
		if !json.Valid(opt.MCPServers) {
			return nil, runnel.Fail(runnel.InvalidRequest, "options: mcpServers must be a JSON object")
		}
		text, err := json.Marshal(s.Seal(opt.MCPServers))
		if err != nil {
			return nil, err
		}
		opt.MCPServers = text
	}
	data, err := json.Marshal(opt)
	if err != nil {
		return nil, runnel.Fail(runnel.InvalidRequest, "options: mcpServers must be a JSON object", err)
	}
	return data, nil
}

// decodeOptions returns the options that the catalogue keeps as data.
func decodeOptions(s Sealer, data json.RawMessage) (runnel.Options, error) {
	var opt runnel.Options
	if len(data) == 0 {
		return opt, nil
	}
	if err := json.Unmarshal(data, &opt); err != nil {
		return opt, runnel.Fail(runnel.Internal, "the session's options cannot be read", err)
	}
	if len(opt.MCPServers) == 0 || opt.MCPServers[0] != '"' { // they were kept without a Sealer
		return opt, nil
	}
	var sealed string
	if err := json.Unmarshal(opt.MCPServers, &sealed); err != nil {
		return opt, runnel.Fail(runnel.Internal, "the session's options cannot be read", err)
	}
	if s == nil {
		return opt, runnel.Fail(runnel.StoreUnavailable, "the session's MCP servers cannot be decrypted: this server has no key")
	}
	plain, err := s.Open(sealed)
	if err != nil {
		return opt, runnel.Fail(runnel.StoreUnavailable, "the session's MCP servers cannot be decrypted: "+err.Error(), err)
	}
	opt.MCPServers = plain
	return opt, nil
}
