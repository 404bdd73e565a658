package conversations

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// A title may be the rest of a long text. The index must not keep that text:
// it may have a hundred thousand titles.
func TestIndexKeepsOnlyTheTitle(t *testing.T) {
	const files, long = 100, 1 << 20
	a := &agent{as: func(f runnel.StoredFile) (runnel.Conversation, error) {
		whole := strings.Repeat("x", long) + filepath.Base(f.Path)
		return runnel.Conversation{AgentSessionID: filepath.Base(f.Path), Dir: whole[long:], Title: whole[long:], LastMessage: whole[long:]}, nil
	}}
	for i := range files {
		a.put(fmt.Sprint("/", i), i)
	}
	x := New(Config{Providers: []runnel.Provider{a}})
	defer x.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for {
		page, err := x.List(t.Context(), Query{Limit: files})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Conversations) == files && len(page.Checking) == 0 {
			break
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+files*long/4 {
		t.Errorf("the heap grew by %d MiB", (after.HeapAlloc-before.HeapAlloc)>>20)
	}
	runtime.KeepAlive(x)
}
