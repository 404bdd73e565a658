package claude

import (
	"runtime"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// jsonList returns a JSON list that contains element n times.
func jsonList(element string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// An agent can write any text into the file of a conversation. A value takes
// two bytes of a line, and a hundred times as much memory once it is decoded.
func TestStoredLinesWithManyValuesTakeLittleMemory(t *testing.T) {
	const each = 9000 // values in the innermost lists
	for name, members := range map[string]string{
		"blocks in blocks":        `"message":{"content":` + jsonList(`{"content":`+jsonList(`{}`, each)+`}`, 200) + `}`,
		"blocks of an attachment": `"attachment":{"prompt":` + jsonList(`{"content":`+jsonList(`{}`, each)+`}`, 200) + `}`,
		"strings":                 `"tools":` + jsonList(`""`, 2_000_000),
		"suggestions":             `"request":{"permission_suggestions":` + jsonList(`0`, 2_000_000) + `}`,
		"few blocks in each line": `"message":{"content":` + jsonList(`{"content":`+jsonList(`{}`, each)+`}`, 50) + `}`,
		"few strings in each":     `"tools":` + jsonList(`""`, 400_000),
	} {
		t.Run(name, func(t *testing.T) {
			line := `{"type":"user","uuid":"u",` + members + "}\n"
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			entries, took, err := readEntries(t.Context(), strings.NewReader(strings.Repeat(line, 8)), 128<<20, nil)
			if err != nil && runnel.CodeOf(err) != runnel.PayloadTooLarge {
				t.Fatal(err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if after.HeapAlloc > before.HeapAlloc+64<<20 {
				t.Errorf("%d bytes took %d MiB of memory, counted as %d MiB", 8*len(line), (after.HeapAlloc-before.HeapAlloc)>>20, took>>20)
			}
			if err == nil && len(entries) != 8 {
				t.Errorf("%d entries", len(entries))
			}
			runtime.KeepAlive(entries)
		})
	}
}
