package claude

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestShortenerCutsOnlyLongStrings(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"12345678","b":"123456789"}` + "\n": `{"a":"12345678","b":"12345678"}` + "\n",
		`{"a":"1234567é89"}`:                      `{"a":"1234567é"}`,
		`{"a":"12345678é"}`:                       `{"a":"12345678"}`,
		`{"a":"1234567\u00e989"}`:                 `{"a":"1234567\u00e9"}`,
		`{"a":"1234567\"89","b":1}`:               `{"a":"1234567\"","b":1}`,
		`{"a":"1234567\\","b":1}`:                 `{"a":"1234567\\","b":1}`,
		`{"a":"unfinished string` + "\n{\"b\":1}": `{"a":"unfinish` + "\n{\"b\":1}",
		strings.Repeat(`{"a":"b"}`, 5):            strings.Repeat(`{"a":"b"}`, 5),
	} {
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in))} {
			got, err := io.ReadAll(newShortener(r, 8))
			if err != nil || string(got) != want {
				t.Errorf("%s, %s: got %s, %v; want %s", in, name, got, err, want)
			}
		}
	}
	if _, err := io.ReadAll(newShortener(iotest.ErrReader(io.ErrClosedPipe), 8)); err != io.ErrClosedPipe {
		t.Errorf("got %v", err)
	}
}

// filler returns a reader of n bytes of text.
func filler(n int64) io.Reader { return io.LimitReader(endless{}, n) }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestLinesOfAnySizeAreReadInBoundedMemory(t *testing.T) {
	entries, _, err := readEntries(t.Context(), io.MultiReader(
		strings.NewReader(`{"type":"user","uuid":"a","message":{"role":"user","content":"`), filler(maxStoredLine+maxStoredString),
		strings.NewReader(`"}}`+"\n"+`{"type":"user","uuid":"b","parentUuid":"a","x":[`), filler(maxStoredLine+1),
		strings.NewReader("]}\n"+`{"type":"user","uuid":"c","parentUuid":"b","message":{"role":"user","content":"hi"}}`+"\n"+`{"type":"us`),
	), maxStored, nil)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if n := len(entries[0].Message.Content.text()); n != maxStoredString {
		t.Errorf("the long string has %d bytes", n)
	}
	if entries[1].Type != unreadable || entries[1].size < maxStoredLine {
		t.Errorf("the long line is %+v", entries[1])
	}
	if got := chain(entries); len(got) != 3 || got[0].UUID != "a" || got[1].Type != unreadable || got[2].UUID != "c" {
		t.Errorf("%d entries", len(got))
	}
}
