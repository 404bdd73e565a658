package gateway

import (
	"encoding/json"

	"github.com/runnel-dev/runnel"
)

// A Sealer encrypts secrets for the catalogue. Its methods may be called
// concurrently.
type Sealer interface {
	// Seal encrypts plain and returns the result as text.
	Seal(plain []byte) string
	// Open decrypts the result of Seal. Its error tells the operator what to
	// do.
	Open(sealed string) ([]byte, error)
}

// encodeOptions returns options in the form that the catalogue stores. The
// definitions of MCP servers contain credentials: with a Sealer they are stored
// as one encrypted string.
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

// decodeOptions is the inverse of encodeOptions.
func decodeOptions(s Sealer, data json.RawMessage) (runnel.Options, error) {
	var opt runnel.Options
	if len(data) == 0 {
		return opt, nil
	}
	if err := json.Unmarshal(data, &opt); err != nil {
		return opt, runnel.Fail(runnel.Internal, "the session's options cannot be read", err)
	}
	if len(opt.MCPServers) == 0 || opt.MCPServers[0] != '"' { // they were stored without a Sealer
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
