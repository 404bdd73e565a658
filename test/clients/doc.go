// Package clients tests the clients in Go and TypeScript that are generated
// from docs/openapi.json. Each holds a conversation with the built program.
package clients
