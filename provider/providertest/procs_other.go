//go:build !linux

package providertest

import "testing"

func descendants() []int { return nil }

func worksIn(int, string) bool { return false }

func killDescendants(t *testing.T)   { t.Skip("this test needs /proc") }
func freezeDescendants(t *testing.T) { t.Skip("this test needs /proc") }
