package strictjson

import (
	"encoding/json"
	"testing"
)

// encoding/json decodes every accepted value, and encodes it to an accepted
// value again.
func FuzzJSONStrict(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,2.5e-3,true,null,"\u00e9\ud83d\ude00"]}`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", `"\ud800"`, `[01]`, `1e999`, `{"a":}`, " [ ] "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if Check(data) != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("accepted %q", data)
		}
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatalf("accepted %q: %v", data, err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(again); err != nil { // no key was lost or doubled on the way
			t.Fatalf("%q became %q: %v", data, again, err)
		}
	})
}
