package jsonscan_test

import (
	"encoding/json"
	"testing"

	"github.com/runnel-dev/runnel/internal/jsonscan"
)

// scan reads data as an object with the text a, the number n and the value x.
func scan(data []byte) (a string, n int, null, ok bool) {
	s := jsonscan.New(data)
	s.Object([]string{"a", "n", "x", "z"}, func(i int) {
		switch i {
		case 0:
			a = s.Text().String()
		case 1:
			n = s.Int()
		case 2:
			s.Skip()
		case 3:
			if null = s.Null(); !null {
				s.Fail()
			}
		}
	})
	return a, n, null, s.Done()
}

var accepted = []string{
	`{}`, ` { } `, `{"a":"text"}`, `{"a":"é𝄞","n":7}`, "{ \"n\" : 0 ,\t\"a\":\"\"\r\n}",
	`{"a":"\"\\\/\b\f\n\r\t"}`, `{"a":"\u00e9\ud834\udd1e"}`, `{"a":"\ud834"}`, `{"a":"\ud834\u0041"}`, `{"a":"\udd1e\ud834\udd1e"}`, `{"a":"\uD834x"}`,
	`{"x":[1,-0.5e+3,{"b":[]},{},true,false,null,"s\n"],"z":null}`, `{"x":{"a":1,"a":2}}`, `{"x":0}`,
}

var rejected = []string{
	``, `{`, `{"a"`, `{"a":`, `{"a":"`, `{"a":"x}`, `{"a":"x"`, `{"a":"x",}`, `{"a":"x"}}`, `{"a":"x"} y`, `[]`, `null`,
	`{"A":"other case"}`, `{"b":1}`, `{"a":"x","a":"y"}`, `{"\u0061":"x"}`, `{"a":7}`, `{"n":"7"}`, `{"n":07}`, `{"n":-1}`, `{"n":1.5}`, `{"n":1e3}`,
	`{"n":99999999999999999999}`, `{"n":}`, `{"z":1}`, `{"z":nul}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\`, `{"a":"\u12"}`,
	"{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", `{"x":01}`, `{"x":+1}`, `{"x":.5}`, `{"x":1.}`, `{"x":1e}`, `{"x":-}`, `{"x":tru}`, `{"x":[1,]}`, `{"x":{"a"}}`, `{"x":[}`,
}

func TestScanAcceptsObjectsOfTheKnownForm(t *testing.T) {
	for _, data := range accepted {
		check(t, []byte(data))
		if _, _, _, ok := scan([]byte(data)); !ok {
			t.Errorf("rejected %s", data)
		}
	}
}

func TestScanRejectsEverythingElse(t *testing.T) {
	deep := ""
	for range 40 {
		deep += "["
	}
	for _, data := range append(rejected, `{"x":`+deep) {
		if a, n, _, ok := scan([]byte(data)); ok {
			t.Errorf("accepted %s as %q, %d", data, a, n)
		}
	}
}

// check fails if the scanner accepts data and reads it differently from
// encoding/json.
func check(t *testing.T, data []byte) {
	t.Helper()
	a, n, _, ok := scan(data)
	if !ok {
		return
	}
	var want struct {
		A string `json:"a"`
		N int    `json:"n"`
	}
	if err := json.Unmarshal(data, &want); err != nil || a != want.A || n != want.N {
		t.Errorf("%q: read %q, %d; encoding/json reads %q, %d, %v", data, a, n, want.A, want.N, err)
	}
}

func FuzzScanAgainstEncodingJSON(f *testing.F) {
	for _, data := range append(accepted, rejected...) {
		f.Add([]byte(data))
	}
	f.Fuzz(check)
}

func TestScanDoesNotAllocate(t *testing.T) {
	data := []byte(`{"n":12,"x":{"uuid":"0123","list":[1,2.5,true]},"z":null,"a":"x"}`)
	if got := testing.AllocsPerRun(1000, func() {
		if _, _, _, ok := scan(data); !ok {
			t.Fatal("rejected")
		}
	}); got > 0 {
		t.Errorf("%v allocations", got)
	}
}
