package jsonl_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/internal/jsonl"
)

// entry is the result of one call of Next.
type entry struct {
	Line    string
	TooLong int64
	Torn    bool
}

func readAll(t testing.TB, src io.Reader, max int) ([]entry, error) {
	t.Helper()
	var got []entry
	for r := jsonl.NewReader(src, max); ; {
		line, err := r.Next()
		var long *jsonl.TooLongError
		switch {
		case err == nil:
			got = append(got, entry{Line: string(line), Torn: r.Torn()})
		case errors.As(err, &long):
			got = append(got, entry{TooLong: long.Length, Torn: r.Torn()})
		default:
			if _, again := r.Next(); again != err {
				t.Fatalf("the stream ended with %v and then with %v", err, again)
			}
			return got, err
		}
	}
}

func TestNext(t *testing.T) {
	broken := errors.New("broken")
	tests := map[string]struct {
		src  io.Reader
		max  int
		want []entry
		err  error
	}{
		"empty":             {src: strings.NewReader("")},
		"lines":             {src: strings.NewReader("a\nbc\n"), want: []entry{{Line: "a"}, {Line: "bc"}}},
		"crlf":              {src: strings.NewReader("a\r\nb\r\n"), want: []entry{{Line: "a"}, {Line: "b"}}},
		"inner cr is data":  {src: strings.NewReader("a\rb\r\r\n"), want: []entry{{Line: "a\rb\r"}}},
		"blank":             {src: strings.NewReader("\n\r\n \t\na\n\n\r\n"), want: []entry{{Line: "a"}}},
		"spaces are data":   {src: strings.NewReader("  a  \n"), want: []entry{{Line: "  a  "}}},
		"half line":         {src: strings.NewReader("a\n{\"b"), want: []entry{{Line: "a"}, {Line: "{\"b", Torn: true}}},
		"half line ending":  {src: strings.NewReader("a\r"), want: []entry{{Line: "a", Torn: true}}},
		"blank half line":   {src: strings.NewReader("a\n  "), want: []entry{{Line: "a"}}},
		"nul and non-utf-8": {src: strings.NewReader("a\x00\n\xff\xfeb\n"), want: []entry{{Line: "a\x00"}, {Line: "\xff\xfeb"}}},
		"at the bound":      {src: strings.NewReader("abc\r\nabc\n"), max: 3, want: []entry{{Line: "abc"}, {Line: "abc"}}},
		"over the bound":    {src: strings.NewReader("abcd\r\nabcde\nx\n"), max: 3, want: []entry{{TooLong: 4}, {TooLong: 5}, {Line: "x"}}},
		"long half line":    {src: strings.NewReader("x\nabcd"), max: 3, want: []entry{{Line: "x"}, {TooLong: 4, Torn: true}}},
		"source fails":      {src: io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), want: []entry{{Line: "a"}, {Line: "b", Torn: true}}, err: broken},
		"data with the end": {src: iotest.DataErrReader(strings.NewReader("a\nb\n")), want: []entry{{Line: "a"}, {Line: "b"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := readAll(t, tt.src, tt.max)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if tt.err == nil {
				tt.err = io.EOF
			}
			if err != tt.err {
				t.Errorf("ended with %v, want %v", err, tt.err)
			}
		})
	}
}

func TestTooLongErrorHasNoContent(t *testing.T) {
	_, err := jsonl.NewReader(strings.NewReader("secretsecret\n"), 4).Next()
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "12") {
		t.Errorf("error is %q", err)
	}
}

func TestValid(t *testing.T) {
	for line, want := range map[string]bool{
		"":             true,
		`{"a":"é𝄞"}`:   true,
		"a\x00b":       false,
		"\xff":         false,
		"\xed\xa0\x80": false, // a lone surrogate
		"{\x00\"\x00":  false, // UTF-16
	} {
		if got := jsonl.Valid([]byte(line)); got != want {
			t.Errorf("Valid(%q) = %v", line, got)
		}
	}
}

// stream generates lines of 'x' with the given sizes, each between two good
// lines, while it is read. It measures the heap meanwhile.
type stream struct {
	sizes []int
	text  []byte // pending before the next long line
	left  int    // rest of the long line, in bytes
	base  uint64
	peak  uint64
	since int // bytes since the last measurement
}

var exes = bytes.Repeat([]byte("x"), 64<<10)

const good = `{"good":"line"}`

func newStream(sizes ...int) *stream {
	debug.FreeOSMemory()
	s := &stream{sizes: sizes, text: []byte(good + "\n")}
	s.base = held()
	return s
}

// held returns the memory that the heap has obtained from the operating system.
func held() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys - m.HeapReleased
}

func (s *stream) Read(p []byte) (n int, err error) {
	defer func() {
		if s.since += n; s.since > 1<<20 {
			s.since = 0
			s.peak = max(s.peak, held())
		}
	}()
	switch {
	case len(s.text) > 0:
		n = copy(p, s.text)
		s.text = s.text[n:]
	case s.left > 0:
		n = copy(p[:min(len(p), s.left)], exes)
		if s.left -= n; s.left == 0 {
			s.text = []byte("\n" + good + "\n")
		}
	case len(s.sizes) > 0:
		s.left, s.sizes = s.sizes[0], s.sizes[1:]
		return s.Read(p)
	default:
		return 0, io.EOF
	}
	return n, nil
}

func TestLineBeyondTheBoundIsAnErrorAndSkipped(t *testing.T) {
	const bound = 40 << 20
	for _, size := range []int{
		1 << 10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20, jsonl.DefaultMax - 1, jsonl.DefaultMax, jsonl.DefaultMax + 1,
		jsonl.DefaultMax + 2, jsonl.DefaultMax + 3, 64 << 20, 300 << 20,
	} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			const times = 4 // the bound also holds when long lines follow each other
			src := newStream(size, size, size, size)
			r := jsonl.NewReader(src, 0)
			wantGood(t, r)
			for range times {
				line, err := r.Next()
				var long *jsonl.TooLongError
				switch {
				case size <= jsonl.DefaultMax:
					if err != nil || len(line) != size || bytes.Count(line, []byte("x")) != size {
						t.Fatalf("got %d bytes, %v; want %d", len(line), err, size)
					}
				case !errors.As(err, &long):
					t.Fatalf("got %d bytes, %v; want a TooLongError", len(line), err)
				case long.Length != int64(size):
					t.Errorf("length is %d, want %d", long.Length, size)
				}
				wantGood(t, r)
			}
			if line, err := r.Next(); err != io.EOF {
				t.Errorf("after the last line: %d bytes, %v", len(line), err)
			}
			if src.peak > src.base+bound {
				t.Errorf("heap grew by %d MiB", (src.peak-src.base)>>20)
			}
		})
	}
}

func wantGood(t *testing.T, r *jsonl.Reader) {
	t.Helper()
	if line, err := r.Next(); string(line) != good || err != nil {
		t.Fatalf("good line came as %d bytes, %v", len(line), err)
	}
}

func TestMemoryOfLongLineIsReleased(t *testing.T) {
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	r := jsonl.NewReader(newStream(jsonl.DefaultMax), 0)
	wantGood(t, r)
	if line, err := r.Next(); len(line) != jsonl.DefaultMax {
		t.Fatal(len(line), err)
	}
	if grown := live() - before; grown < jsonl.DefaultMax {
		t.Fatalf("only %d bytes live while the line is in use", grown)
	}
	wantGood(t, r)
	if now := live(); now > before+1<<20 {
		t.Errorf("the reader still holds %d KiB", (now-before)>>10)
	}
	runtime.KeepAlive(r)
}

// split returns a reader that returns s in two reads, cut at i.
func split(s string, i int) io.Reader {
	return io.MultiReader(strings.NewReader(s[:i]), strings.NewReader(s[i:]))
}

func TestCharactersCutBetweenReadsAreJoined(t *testing.T) {
	want := []entry{{Line: `{"a":"𝄞 é"}`}, {Line: "  𝄞𝄞  "}, {Line: "𝄞", Torn: true}}
	text := want[0].Line + "\r\n" + want[1].Line + "\n" + want[2].Line
	check := func(src io.Reader) {
		t.Helper()
		if got, _ := readAll(t, src, 0); !cmp.Equal(want, got) {
			t.Error(cmp.Diff(want, got))
		}
	}
	for i := range len(text) {
		check(split(text, i))
	}
	check(iotest.OneByteReader(strings.NewReader(text)))
	check(iotest.HalfReader(strings.NewReader(text)))

	for seam := 64 << 10; seam <= 256<<10; seam *= 2 {
		for off := -5; off <= 5; off++ {
			for _, rune := range []string{"𝄞", " ", "\t ", "\r", "é "} {
				line := strings.Repeat("x", seam+off) + rune + "end"
				src := "first\n" + line + "\r\n" + line + "\nlast\n"
				got, _ := readAll(t, strings.NewReader(src), 0)
				want := []entry{{Line: "first"}, {Line: line}, {Line: line}, {Line: "last"}}
				if !cmp.Equal(want, got) {
					t.Errorf("line differs at seam %d%+d with %q", seam, off, rune)
				}
			}
		}
	}
}

// reference returns what a Reader must return for src.
func reference(src []byte, max int) []entry {
	var want []entry
	for lines := bytes.Split(src, []byte("\n")); len(lines) > 0; lines = lines[1:] {
		line := bytes.TrimSuffix(lines[0], []byte("\r"))
		torn := len(lines) == 1
		switch {
		case len(line) > max:
			want = append(want, entry{TooLong: int64(len(line)), Torn: torn})
		case len(bytes.Trim(line, " \t\r")) > 0:
			want = append(want, entry{Line: string(line), Torn: torn})
		}
	}
	return want
}

// rough returns the bytes of its source in pieces whose sizes repeat a pattern.
type rough struct {
	src     []byte
	pattern []byte
	i       int
}

func (r *rough) Read(p []byte) (int, error) {
	if len(r.src) == 0 {
		return 0, io.EOF
	}
	n := len(p)
	if len(r.pattern) > 0 {
		n = min(n, 1+int(r.pattern[r.i%len(r.pattern)])*257) // up to 64 KiB
		r.i++
	}
	n = copy(p[:n], r.src)
	r.src = r.src[n:]
	return n, nil
}

var seeds = []struct {
	unit, pattern string
	repeat, max   uint16
}{
	{"", "", 1, 1},
	{"a\nb\r\n\n\r\n \n", "", 3, 1},
	{"{\"t\":\"𝄞\"}\r\n", "\x00", 9, 100},
	{"no newline", "\x01\x02", 9000, 65535},
	{"xxxxxxxx", "\xff", 8191, 65527},
	{"xxxxxxx\r\n", "\xff\x00", 8192, 7},
	{"\r", "\x00", 70, 3},
	{"\n\x00\xff\xfe\n", "\x00", 5, 2},
	{"0123456789abcde\n", "\xfe", 12000, 15},
	{"0123456789abcde\r\n", "\xfe", 12000, 14},
}

func checkAgainstReference(t *testing.T, unit, pattern string, repeat, max uint16) {
	src := bytes.Repeat([]byte(unit), int(repeat))
	if len(src) > 1<<20 {
		t.Skip("too large to be worth it")
	}
	bound := int(max) + 1
	got, err := readAll(t, &rough{src: src, pattern: []byte(pattern)}, bound)
	if err != io.EOF {
		t.Errorf("ended with %v", err)
	}
	if want := reference(src, bound); !cmp.Equal(want, got) {
		t.Errorf("bound %d, %d bytes of %q: got %d lines, want %d", bound, len(src), unit, len(got), len(want))
	}
}

func TestLineReaderAgainstReference(t *testing.T) {
	for _, s := range seeds {
		checkAgainstReference(t, s.unit, s.pattern, s.repeat, s.max)
	}
	// Lengths around the sizes of the buffers.
	for _, edge := range []int{64 << 10, 256 << 10} {
		for off := -3; off <= 3; off++ {
			line := strings.Repeat("y", edge+off)
			for _, end := range []string{"\n", "\r\n", "", "\r"} {
				for bound := edge - 4; bound <= edge+4; bound++ {
					src := []byte("a\n" + line + end)
					got, _ := readAll(t, &rough{src: src}, bound)
					if want := reference(src, bound); !cmp.Equal(want, got) {
						t.Errorf("line of %d%+d and %q, bound %d: got %d lines, want %d", edge, off, end, bound, len(got), len(want))
					}
				}
			}
		}
	}
}

func FuzzLineReaderAgainstReference(f *testing.F) {
	for _, s := range seeds {
		f.Add(s.unit, s.pattern, s.repeat, s.max)
	}
	f.Fuzz(checkAgainstReference)
}

func BenchmarkReader(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 100 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			src := bytes.Repeat(append(bytes.Repeat([]byte("x"), size-1), '\n'), max(1, 4<<20/size))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			r := jsonl.NewReader(endless{src: src, at: new(int)}, 0)
			for b.Loop() {
				if line, err := r.Next(); len(line) != size-1 {
					b.Fatal(len(line), err)
				}
			}
		})
	}
}

// endless repeats its bytes forever.
type endless struct {
	src []byte
	at  *int
}

func (e endless) Read(p []byte) (int, error) {
	n := copy(p, e.src[*e.at:])
	*e.at = (*e.at + n) % len(e.src)
	return n, nil
}

func TestShortLinesDoNotAllocate(t *testing.T) {
	r := jsonl.NewReader(endless{src: []byte("{\"type\":\"x\"}\r\n"), at: new(int)}, 0)
	allocs := testing.AllocsPerRun(10_000, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a line", allocs)
	}
}
