//go:build race

package httpapi

func init() { raced = true }
