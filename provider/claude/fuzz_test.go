package claude

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// maxSeed bounds the seeds of fuzzing, in bytes. The fuzzer minimises each new
// input, which takes as many runs as the input has bytes.
const maxSeed = 3 << 10

func FuzzLinesOfAnAgent(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(recordtest.Seed(f, section(a, "in"), maxSeed, func(text []byte) bool {
			return len(text) > maxSeed/2 || bytes.Contains(text, []byte("_delta"))
		}))
	}
	f.Add([]byte("<" + promptLine("go") + "\n" + strings.Join([]string{initLine, startLine, blockLine, deltaLine, wholeLine, resultLine}, "\n")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<20 {
			t.Skip()
		}
		tr := newTranslator()
		var evs []event.Event
		for _, l := range recordtest.Seeded(data) {
			if l.Dir == runnel.DirIn {
				evs = append(evs, tr.Sent(l.Text, l.At)...)
				continue
			}
			out, _ := tr.Printed(l.Text, l.At)
			evs = append(evs, out...)
		}
		for _, ev := range evs {
			if err := ev.Validate(); err != nil {
				t.Fatalf("%v: %s", err, dump([]event.Event{ev}))
			}
		}
		closed(t, evs)
	})
}

func FuzzStored(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range a.Files {
			if strings.HasSuffix(s.Name, ".jsonl") {
				cut := bytes.LastIndexByte(s.Data[:min(len(s.Data), maxSeed)], '\n')
				f.Add(s.Data[:cut+1])
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, _, err := readEntries(t.Context(), strings.NewReader(string(data)), maxStored, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := newHistorian("s", nil, nil)
		var evs []event.Event
		for _, e := range chain(entries) {
			evs = append(evs, h.entry(e)...)
		}
		evs = append(evs, h.finish()...)
		for _, ev := range evs {
			if err := ev.Validate(); err != nil {
				t.Fatalf("%v: %s", err, dump([]event.Event{ev}))
			}
		}
		closed(t, evs)
	})
}
