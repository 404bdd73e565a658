// Package clients has clients that were generated from docs/openapi.json, in Go
// and TypeScript, hold a conversation with the built program.
package clients
