package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

var sameID = cmp.Comparer(func(a, b jsonrpc.ID) bool { return a == b })

func TestDecode(t *testing.T) {
	type m = jsonrpc.Message
	for line, want := range map[string]m{
		`{"id":0,"method":"ask","params":{"a":1}}`:                       {ID: jsonrpc.Number(0), Method: "ask", Params: json.RawMessage(`{"a":1}`)},
		`{"jsonrpc":"2.0","id":"x/1","method":"ask"}`:                    {ID: jsonrpc.String("x/1"), Method: "ask"},
		`{"method":"tell","params":[1],"emittedAtMs":17}`:                {Method: "tell", Params: json.RawMessage(`[1]`)},
		`{"id":null,"method":"tell","params":null}`:                      {Method: "tell"},
		`{"id":7,"result":null}`:                                         {ID: jsonrpc.Number(7), Result: json.RawMessage(`null`)},
		`{"id":7,"result":{},"error":null}`:                              {ID: jsonrpc.Number(7), Result: json.RawMessage(`{}`)},
		`{"id":7}`:                                                       {ID: jsonrpc.Number(7)},
		`{"error":{"code":-32600,"message":"no","data":{"x":1}},"id":7}`: {ID: jsonrpc.Number(7), Error: &jsonrpc.Error{Code: -32600, Message: "no", Data: json.RawMessage(`{"x":1}`)}},
		`{"id":7,"result":{},"error":"no"}`:                              {ID: jsonrpc.Number(7), Error: &jsonrpc.Error{Message: "no"}},
		`{"id":7,"error":{"code":"-1","message":5}}`:                     {ID: jsonrpc.Number(7), Error: &jsonrpc.Error{Code: -1}},
		`{"id":7,"error":{"code":-1.0}}`:                                 {ID: jsonrpc.Number(7), Error: &jsonrpc.Error{Code: -1}},
		`{"error":{"code":1,"message":"what was that?"},"id":null}`:      {Error: &jsonrpc.Error{Code: 1, Message: "what was that?"}},
	} {
		got, err := jsonrpc.Decode([]byte(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
		} else if d := cmp.Diff(want, got, sameID); d != "" {
			t.Errorf("%s:\n%s", line, d)
		}
	}
}

func TestDecodeMalformed(t *testing.T) {
	for _, line := range []string{
		``, `null`, `7`, `"secret"`, `[{"id":1,"method":"x"}]`, `{`, `{}`, `{"params":{}}`, `{"id":null}`, `{"id":null,"result":1}`,
		`{"id":{},"method":"x"}`, `{"id":[1],"result":1}`, `{"id":true,"method":"x"}`, `{"method":5}`, `{"method":""}`, `{"method":"x"} secret`,
		`{"method":"` + strings.Repeat("m", 300) + `"}`, `{"id":"` + strings.Repeat("i", 2000) + `","method":"x"}`,
	} {
		if m, err := jsonrpc.Decode([]byte(line)); err == nil {
			t.Errorf("%.60s: %+v", line, m)
		} else if err.Error() != jsonrpc.ErrMalformed.Error() {
			t.Errorf("%.60s: the error is %q", line, err)
		}
	}
}

func TestEncode(t *testing.T) {
	type args struct {
		Text string `json:"text"`
	}
	message := func(m jsonrpc.Message, err error) jsonrpc.Message {
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for want, m := range map[string]jsonrpc.Message{
		`{"id":0,"method":"ask","params":{"text":"<&>"}}`:        message(jsonrpc.NewRequest(jsonrpc.Number(0), "ask", args{"<&>"})),
		`{"id":"prompt:1","method":"ask"}`:                       message(jsonrpc.NewRequest(jsonrpc.String("prompt:1"), "ask", nil)),
		`{"method":"tell"}`:                                      message(jsonrpc.NewNotification("tell", nil)),
		`{"id":3,"result":{}}`:                                   message(jsonrpc.NewResult(jsonrpc.Number(3), struct{}{})),
		`{"id":3,"result":null}`:                                 {ID: jsonrpc.Number(3)},
		`{"id":3,"error":{"code":-32601,"message":"no"}}`:        jsonrpc.NewFailure(jsonrpc.Number(3), jsonrpc.CodeMethodNotFound, "no"),
		`{"id":null,"error":{"code":-32600,"message":"what"}}`:   jsonrpc.NewFailure(jsonrpc.ID{}, jsonrpc.CodeInvalidRequest, "what"),
		`{"method":"$/cancel_request","params":{"requestId":9}}`: cancel(jsonrpc.Number(9)),
		`{"id":1,"method":"ask","params":{"a":[1,2]}}`:           {ID: jsonrpc.Number(1), Method: "ask", Params: json.RawMessage("{\n \"a\": [1,\n2]\n}")},
	} {
		for _, version := range []bool{false, true} {
			line, err := jsonrpc.Encode(m, version)
			full := want
			if version {
				full = `{"jsonrpc":"2.0",` + want[1:]
			}
			if err != nil || string(line) != full {
				t.Errorf("got %s %v, want %s", line, err, full)
			}
		}
	}
	if line, err := jsonrpc.Encode(jsonrpc.Message{}, true); err == nil {
		t.Errorf("an empty message is encoded as %s", line)
	}
}

func TestIDs(t *testing.T) {
	id := func(raw string) (id jsonrpc.ID) {
		if err := json.Unmarshal([]byte(raw), &id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, raw := range []string{`0`, `-1`, `1.50`, `1e3`, `18446744073709551616`, `""`, `"a\u0062"`, `"\ud800"`} {
		if back, err := json.Marshal(id(raw)); err != nil || string(back) != raw {
			t.Errorf("%s is sent back as %s", raw, back)
		}
	}
	for _, same := range [][2]string{{`1`, `1.0`}, {`1000`, `1e3`}, {`0`, `-0`}, {`"ab"`, `"a\u0062"`}, {`"a/b"`, `"a\/b"`}} {
		if !id(same[0]).Same(id(same[1])) {
			t.Errorf("%s is not %s", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{`1`, `"1"`}, {`0`, `null`}, {`""`, `null`}, {`9007199254740993`, `9007199254740992`}, {`1e400`, `2e400`}, {`"\ud800"`, `"\ud801"`}} {
		if id(other[0]).Same(id(other[1])) {
			t.Errorf("%s is %s", other[0], other[1])
		}
	}
}

func anyID(t *rapid.T) jsonrpc.ID {
	if rapid.Bool().Draw(t, "number") {
		return jsonrpc.Number(rapid.Int64().Draw(t, "n"))
	}
	return jsonrpc.String(rapid.String().Filter(func(s string) bool { return len(s) < 100 }).Draw(t, "s"))
}

func anyValue(t *rapid.T) json.RawMessage {
	raw, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "value"))
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := jsonrpc.Message{}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			m.ID, m.Method, m.Params = anyID(t), "ask", anyValue(t)
		case 1:
			m.Method, m.Params = "tell", anyValue(t)
		case 2:
			m.ID, m.Result = anyID(t), anyValue(t)
		case 3:
			m.ID, m.Error = anyID(t), &jsonrpc.Error{Code: rapid.Int64Range(-1<<52, 1<<52).Draw(t, "code"), Message: rapid.String().Draw(t, "text"), Data: anyValue(t)}
		}
		line, err := jsonrpc.Encode(m, rapid.Bool().Draw(t, "version"))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(line, "\r\n") {
			t.Fatalf("not one line: %q", line)
		}
		got, err := jsonrpc.Decode(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if d := cmp.Diff(m, got, sameID); d != "" {
			t.Fatal(d)
		}
	})
}

// TestSlowReaderBlocksWriter checks that a slow reader receives all messages in
// order, and that the writer blocks meanwhile without an error.
func TestSlowReaderBlocksWriter(t *testing.T) {
	n := 20_000
	if os.Getenv("RUNNEL_LONG") != "" {
		n = 100_000
	}
	r, w := io.Pipe()
	written := make(chan int, n+1)
	go func() {
		defer w.Close()
		for i := range n {
			fmt.Fprintf(w, `{"method":"tell","params":%d}`+"\n", i)
			written <- i
		}
		fmt.Fprintln(w, `{"id":1,"result":"end"}`)
	}()
	var p jsonrpc.Peer
	id, err := p.NextID()
	if err != nil {
		t.Fatal(err)
	}
	p.Sent(jsonrpc.Message{ID: id, Method: "ask"})
	lines := jsonl.NewReader(r, 0)
	for i := range n {
		line, err := lines.Next()
		if err != nil {
			t.Fatalf("at %d: %v", i, err)
		}
		if ahead := len(written) - i; i%1000 == 0 && ahead > 4000 {
			t.Fatalf("the writer is %d messages ahead of the reader", ahead)
		}
		m, err := jsonrpc.Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := p.Got(m); v != jsonrpc.Notified || string(m.Params) != fmt.Sprint(i) {
			t.Fatalf("at %d came %s", i, line)
		}
	}
	line, err := lines.Next()
	if err != nil {
		t.Fatal(err)
	}
	m, err := jsonrpc.Decode(line)
	if v, c := p.Got(m); err != nil || v != jsonrpc.Answered || c.Method != "ask" {
		t.Errorf("the answer is %v %+v %v", v, c, err)
	}
	if _, err := lines.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// FuzzMessage checks that Decode returns either a message that stays the same
// when it is encoded and decoded again, or an error without the content of the
// line.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		`{"id":0,"method":"a","params":{}}`, `{"method":"a"}`, `{"id":"x","result":{}}`, `{"id":1.0,"error":{"code":-1,"message":"m","data":[]}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"x"}}`, `{"error":"x"}`, `[]`, `{"id":"\ud800"}`, `{"ID":1,"Method":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := jsonrpc.Decode(line)
		if err != nil {
			if !errors.Is(err, jsonrpc.ErrMalformed) || err.Error() != jsonrpc.ErrMalformed.Error() {
				t.Fatalf("%q", err)
			}
			return
		}
		out, err := jsonrpc.Encode(m, false)
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		again, err := jsonrpc.Decode(out)
		if err != nil {
			t.Fatalf("%s became %s: %v", line, out, err)
		}
		if m.ID != again.ID || m.Method != again.Method || m.Kind() != again.Kind() || (m.Error == nil) != (again.Error == nil) {
			t.Fatalf("%s became %s", line, out)
		}
		var p jsonrpc.Peer
		p.Got(m)
		p.Sent(m)
		if len(p.Open())+len(p.Waiting()) > 2 {
			t.Fatalf("%s: open %v, waiting %v", line, p.Open(), p.Waiting())
		}
	})
}
