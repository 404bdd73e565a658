package gateway

import (
	"testing"

	"github.com/runnel-dev/runnel"
)

func TestChangesOfOtherProjectsAreNotReported(t *testing.T) {
	d, p := newDisk(t), newFiling()
	mine, theirs := t.TempDir(), t.TempDir()
	p.put("a", mine, "one")
	g := d.open(t, func(c *Config) { c.Conversations, c.Providers = true, []runnel.Provider{p} })
	defer closeIt(t, g)
	list := ConversationsOf(g)
	look := func() {
		t.Helper()
		if _, err := list.List(t.Context(), ConversationQuery{Limit: 10}); err != nil {
			t.Fatal(err)
		}
	}
	look()
	_, version := list.Changes(-1, "")
	p.put("b", theirs, "one")
	look()
	<-list.Changed(version)
	if changed, _ := list.Changes(version, mine); changed {
		t.Error("a change in another project is reported")
	}
	if changed, now := list.Changes(version, ""); !changed || now <= version {
		t.Errorf("changed %v, version %d after %d", changed, now, version)
	}
	p.put("a", mine, "one", "two")
	look()
	if changed, now := list.Changes(version, mine); !changed {
		t.Error("a change in the project is not reported")
	} else if again, _ := list.Changes(now, mine); again {
		t.Error("a change is reported twice")
	}
}
