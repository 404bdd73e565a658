//go:build race

package sim

func init() { slower = 25 }
