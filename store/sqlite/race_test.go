//go:build race

package sqlite

func init() { raced = true }
