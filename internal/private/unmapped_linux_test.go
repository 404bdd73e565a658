package private

import "testing"

func TestEveryUserTellsNamespacesApart(t *testing.T) {
	for uidMap, want := range map[string]bool{
		"         0          0 4294967295\n":                  true,
		"         0       1000          1\n":                  false,
		"         0       1000          1\n 1 100000 65536\n": false,
		"      1000       1000          1\n":                  false,
	} {
		if got := everyUser(uidMap); got != want {
			t.Errorf("everyUser(%q) = %v", uidMap, got)
		}
	}
}
