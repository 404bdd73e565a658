package supervisor

import (
	"bytes"
	"runtime"
	"testing"
	"time"
)

// memoryFile is a file in memory that is only appended to.
type memoryFile struct{ bytes.Buffer }

func (f *memoryFile) WriteAt(p []byte, _ int64) (int, error) { return f.Write(p) }
func (f *memoryFile) Close() error                           { return nil }
func (f *memoryFile) Truncate(int64) error                   { f.Reset(); return nil }

// A server that takes over holds the spool in memory. Output in short lines, or
// in short pieces, must not take much more memory than its bytes.
func TestBacklogOfShortPiecesTakesLittleMemory(t *testing.T) {
	for name, piece := range map[string][]byte{
		"blank lines":    bytes.Repeat([]byte("\n"), relaySize),
		"short lines":    bytes.Repeat([]byte("{}\n"), relaySize/3),
		"single letters": []byte("x"),
	} {
		t.Run(name, func(t *testing.T) {
			f := new(memoryFile)
			s := newSpool(f, nil, maxSpool)
			s.begin([]byte("{}"), 0, time.Now())
			for s.room(len(piece)) {
				s.output(piece, time.Now())
			}
			if !s.whole || s.size == 0 {
				t.Fatalf("the spool was emptied at %d bytes", s.size)
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			b, err := readBacklog(bytes.NewReader(f.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if took := (after.HeapAlloc - before.HeapAlloc) >> 20; took > 512 {
				t.Errorf("%d bytes take %d MiB", s.size, took)
			}
			runtime.KeepAlive(b)
		})
	}
}

// A turn with too many lines is dropped from the spool, and the next turn is
// kept.
func TestSpoolDropsTurnWithTooManyLines(t *testing.T) {
	s := newSpool(new(memoryFile), nil, maxSpool)
	s.begin([]byte("{}"), 0, time.Now())
	for range maxPieces / 1000 {
		s.output(bytes.Repeat([]byte("\n"), 1000), time.Now())
	}
	if s.whole || s.size != 0 {
		t.Errorf("the spool has %d bytes", s.size)
	}
	s.begin([]byte("{}"), s.out, time.Now())
	s.output([]byte("next\n"), time.Now())
	if !s.whole || s.size == 0 {
		t.Error("the next turn was not kept")
	}
}
