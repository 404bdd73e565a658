// Package client is what oapi-codegen makes of docs/openapi.json.
package client

//go:generate go tool oapi-codegen -config oapi-codegen.yaml ../../../../docs/openapi.json
