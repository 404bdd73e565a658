package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// What is accepted is in the allow-list by another parser's reading, too.
func FuzzJ05_HostOrigin(f *testing.F) {
	for _, h := range []string{"localhost:7777", "127.0.0.1", "[::1]:1", "127.0.0.1.nip.io", "localhost.", "user@localhost", "[::ffff:127.0.0.1]", "LOCALHOST", "0.0.0.0", "127.1", "", "work.example"} {
		f.Add(h, "http://"+h)
	}
	f.Add("localhost", "null")
	f.Add("localhost:80", "http://localhost:80@evil.example")
	s := &Server{cfg: Config{Origins: []string{"https://runnel.example"}}, hosts: newHosts(nil, []string{"work.example"}), crossOrigin: http.NewCrossOriginProtection()}
	f.Fuzz(func(t *testing.T, host, origin string) {
		if s.hosts.judge(host) != hostAccepted {
			return
		}
		u, err := url.Parse("http://" + host + "/")
		if err != nil || u.User != nil || u.Path != "/" || u.Fragment != "" || u.RawQuery != "" {
			t.Fatalf("accepted %q, which is no host: %v", host, err)
		}
		name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
			if !ip.Unmap().IsLoopback() {
				t.Fatalf("accepted the address %s", ip)
			}
		} else if name != "localhost" && name != "work.example" {
			t.Fatalf("accepted the name %q", name)
		}
		r := httptest.NewRequest("POST", "/api/session/x/kill", nil)
		r.Host = host
		r.Header["Origin"] = []string{origin}
		if s.judgeOrigin(r) != nil {
			return
		}
		o, err := url.Parse(origin)
		if err != nil || o.Scheme != "http" && origin != "https://runnel.example" {
			t.Fatalf("accepted the origin %q: %v", origin, err)
		}
		if !strings.EqualFold(o.Host, host) && origin != "https://runnel.example" {
			t.Fatalf("accepted the origin %q for the host %q", origin, host)
		}
	})
}

// A cursor is a whole number of zero or more in plain digits, or it is refused.
func FuzzJ07_Cursor(f *testing.F) {
	for _, c := range []string{"", "0", "1", "-1", "+1", "007", "9223372036854775807", "9223372036854775808", "1.0", "1e3", " 1", "1 ", "0x1", "1_000", "١", "\x00"} {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := &http.Request{Header: http.Header{"Last-Event-Id": {text}}, URL: &url.URL{RawQuery: url.Values{"after": {text}}.Encode()}}
		byHeader, err := cursor(r)
		byQuery, err2 := number(r, "after", 0)
		if byHeader != byQuery || (err == nil) != (err2 == nil) {
			t.Fatalf("%q: %d, %v as header and %d, %v as query", text, byHeader, err, byQuery, err2)
		}
		if err != nil {
			return
		}
		plain := strings.TrimLeft(text, "0")
		if byHeader < 0 || fmt.Sprint(byHeader) != plain && !(byHeader == 0 && plain == "") {
			t.Fatalf("%q was read as %d", text, byHeader)
		}
	})
}

// What is accepted means the same to encoding/json, whatever it lets through.
func FuzzC15_JSONStrict(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,2.5e-3,true,null,"\u00e9\ud83d\ude00"]}`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", `"\ud800"`, `[01]`, `1e999`, `{"a":}`, " [ ] "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if checkJSON(data) != nil {
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
		if err := checkJSON(again); err != nil { // no key was lost or doubled on the way
			t.Fatalf("%q became %q: %v", data, again, err)
		}
	})
}
