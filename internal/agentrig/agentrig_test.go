package agentrig

import (
	"flag"
	"testing"
)

func TestBoundKeepsAnExplicitParallel(t *testing.T) {
	if err := flag.Set("test.parallel", "7"); err != nil {
		t.Fatal(err)
	}
	if err := Bound(); err != nil {
		t.Fatal(err)
	}
	if got := flag.Lookup("test.parallel").Value.String(); got != "7" {
		t.Errorf("-parallel is %s, want 7", got)
	}
}
