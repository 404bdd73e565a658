package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPagesAreOfTheFindings(t *testing.T) {
	root := filepath.Join("..", "..")
	for page, render := range pages {
		want, err := render(root)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, string(got)); d != "" {
			t.Errorf("%s is not what the tests found; run go run ./internal/agentdoc (-found +page):\n%s", page, d)
		}
	}
}
