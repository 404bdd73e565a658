package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

const key = "hunter2/+kJf=93&\"x\\y äö-0815"

func TestFormsOfAValue(t *testing.T) {
	quoted, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	r := New(key)
	for name, form := range map[string]string{
		"plain":       key,
		"json":        string(quoted[1 : len(quoted)-1]),
		"query":       url.QueryEscape(key),
		"query lower": strings.ToLower(url.QueryEscape(key)),
		"path":        url.PathEscape(key),
		"hex":         hex.EncodeToString([]byte(key)),
		"hex upper":   strings.ToUpper(hex.EncodeToString([]byte(key))),
	} {
		if name == "query lower" {
			form = lowerEscapes(url.QueryEscape(key))
		}
		if got, want := r.String("<"+form+">"), "<"+Marker+">"; got != want {
			t.Errorf("%s: %q became %q", name, form, got)
		}
	}
	for shift := range 4 {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString([]byte("abcd"[:shift] + key + "tail"))
			if got := r.String(text); !strings.Contains(got, Marker) || len(got) > len(Marker)+14 {
				t.Errorf("base64 after %d bytes: %q became %q", shift, text, got)
			}
			if wrapped := text[:20] + "\n" + text[20:40] + "\r\n" + text[40:]; strings.Trim(strings.Replace(r.String(wrapped), Marker, "", 1), "\r\n") != strings.Replace(r.String(text), Marker, "", 1) {
				t.Errorf("base64 over lines: %q became %q", wrapped, r.String(wrapped))
			}
		}
	}
}

func TestLooks(t *testing.T) {
	const b = "0123456789abcdefABCDEF0123456789abcdef012345"
	pemKey := "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n" +
		strings.Repeat(strings.Repeat("Ab+/", 16)+"\n", 30) + "ab==\n-----END RSA PRIVATE KEY-----"
	for _, c := range []struct{ in, want string }{
		{"sk-ant-api03-" + b, Marker},
		{"key=sk-ant-api03-" + b + ".", "key=" + Marker + "."},
		{"sk-proj-" + b, Marker},
		{`{"a":"x\nsk-` + b + `"}`, `{"a":"x\n` + Marker + `"}`},
		{"q=%20sk-" + b, "q=%20" + Marker},
		{"ghp_" + b, Marker}, {"gho_" + b, Marker}, {"github_pat_" + b, Marker}, {"glpat-" + b, Marker},
		{"AKIAIOSFODNN7EXAMPLE", Marker}, {"(ASIAIOSFODNN7EXAMPLE)", "(" + Marker + ")"},
		{"xoxb-1234-5678-abcdef", Marker}, {"rnl_" + b, Marker},
		{pemKey + " end", Marker + " end"},
		{strings.ReplaceAll(pemKey, "\n", `\n`) + `"`, Marker + `"`},
		{"-----BEGIN PRIVATE KEY-----\nMIIE", Marker}, // cut off
		{"Authorization: Bearer abcdef.ghi", "Authorization: Bearer " + Marker},
		{"authorization=basic dXNlcjpwdw==", "authorization=basic " + Marker},
		{`{"Authorization": "Bearer abcdef.ghi"}`, `{"Authorization": "Bearer ` + Marker + `"}`},
		{`{\"authorization\":\"Bearer abcdef\"}`, `{\"authorization\":\"Bearer ` + Marker + `\"}`},
		{"X-Api-Key: 0123456789abcdef\r\n", "X-Api-Key: " + Marker + "\r\n"},

		{"task-list, risk-assessment-framework-document-2024", "task-list, risk-assessment-framework-document-2024"},
		{"sk-short", "sk-short"}, {"ghp_ is a prefix", "ghp_ is a prefix"},
		{"AKIA is one; XAKIAIOSFODNN7EXAMPLE is not", "AKIA is one; XAKIAIOSFODNN7EXAMPLE is not"},
		{"Authorization: Bearer $TOKEN", "Authorization: Bearer $TOKEN"},
		{"Authorization: checked below", "Authorization: checked below"},
		{"a table\n|-----|-----|\n-----BEGIN CERTIFICATE-----\nMIIE", "a table\n|-----|-----|\n-----BEGIN CERTIFICATE-----\nMIIE"},
		{"", ""}, {"-", "-"}, {"ein Gruß aus 世界", "ein Gruß aus 世界"},
	} {
		for cut := 0; cut <= len(c.in); cut += 1 + len(c.in)/300 {
			if got := inPieces(new(Redactor), c.in, cut, len(c.in)); got != c.want {
				t.Fatalf("%q cut at %d became %q, want %q", c.in, cut, got, c.want)
			}
		}
	}
	prose := "-----BEGIN PRIVATE KEY----- starts a key. " + strings.Repeat("More is said of keys. ", 20)
	if got := New().String(prose); !strings.HasSuffix(got, strings.Repeat("More is said of keys. ", 10)) {
		t.Errorf("prose about keys became %q", got)
	}
}

// inPieces redacts s as a stream that is cut twice.
func inPieces(r *Redactor, s string, i, j int) string {
	st := r.Stream()
	return st.Append(s[:i]) + st.Append(s[i:j]) + st.Append(s[j:]) + st.End()
}

func TestOnlyWhatMayBecomeASecretIsHeldBack(t *testing.T) {
	st := New("correct-horse-battery").Stream()
	for _, c := range []struct{ in, out string }{
		{"All of this is shown. ", "All of this is shown. "},
		{"The corr", "The "},
		{"idor", "corrido"}, // the "r" at the end may begin a key such as rnl_…
		{" is correct-horse", "r is "},
		{"-", ""},
		{"pool", "correct-horse-pool"},
		{" sk", " "},
		{"y", "sky"},
		{" correct-horse-battery", " "},
		{"!", Marker + "!"},
	} {
		if got := st.Append(c.in); got != c.out {
			t.Errorf("after %q came %q, want %q", c.in, got, c.out)
		}
	}
	if got := st.End(); got != "" {
		t.Errorf("the end held %q", got)
	}
}

func TestTheCutEndOfATextHoldsNoHalfSecret(t *testing.T) {
	r := New("correct-horse-battery")
	if got := r.String("it is correct-horse-ba"); got != "it is "+Marker {
		t.Errorf("got %q", got)
	}
	if got := r.String("it is correct"); got != "it is correct" {
		t.Errorf("got %q", got)
	}
}

func TestOverlappingValues(t *testing.T) {
	r := New("abcdefgh1", "efgh1ijkl", "cdefgh1i", "12345678a12345678b")
	if got := r.String("<abcdefgh1ijkl><12345678a12345678a12345678b>"); got != "<"+Marker+"><12345678a"+Marker+">" {
		t.Errorf("got %q", got)
	}
}

func TestWithAndAdd(t *testing.T) {
	base := New("first-secret")
	r := base.With("second-secret")
	if base.With("short") != base {
		t.Error("a redactor that knows no more is a new one")
	}
	base.Add("third-secret")
	if got, want := r.String("first-secret second-secret third-secret"), strings.TrimSpace(strings.Repeat(Marker+" ", 3)); got != want {
		t.Errorf("got %q", got)
	}
	if got := base.String("second-secret"); got != "second-secret" {
		t.Errorf("got %q", got)
	}
	var none *Redactor
	if got := none.With("fourth-secret").String("fourth-secret"); got != Marker {
		t.Errorf("got %q", got)
	}
	var many []string
	for i := range 2 * maxAdded {
		many = append(many, "secret-number-"+strconv.Itoa(i))
	}
	base.Add(many...)
	if len(base.added) != maxAdded || base.String("third-secret") == Marker {
		t.Errorf("%d values are kept", len(base.added))
	}
	if got := base.String("first-secret"); got != Marker {
		t.Errorf("what the redactor was made with is forgotten: %q", got)
	}
}

// Values are compiled when the first text after Add is redacted, and only once.
func TestAddedValuesAreCompiledForTheNextText(t *testing.T) {
	r, secrets := New(), []string{"one-Secret-1", "two-Secret-2"}
	for _, s := range secrets {
		r.Add(s)
	}
	if r.known.Load() != nil {
		t.Error("values were compiled before there was a text")
	}
	var texts sync.WaitGroup
	for range 8 {
		texts.Go(func() {
			if got := r.String(strings.Join(secrets, " ")); got != Marker+" "+Marker {
				t.Errorf("got %q", got)
			}
		})
	}
	texts.Wait()
	first := r.known.Load()
	if r.String("some other text"); r.known.Load() != first {
		t.Error("the same values were compiled again")
	}
}

func TestWhatIsAddedBelowTakesNothingFromAbove(t *testing.T) {
	below := New()
	r := Above(below)
	r.Add("first-secret")
	for i := range 2 * maxAdded {
		below.Add("secret-number-" + strconv.Itoa(i))
	}
	last := "secret-number-" + strconv.Itoa(2*maxAdded-1)
	if got, want := r.String("first-secret "+last), Marker+" "+Marker; got != want {
		t.Errorf("got %q", got)
	}
}

func TestEnv(t *testing.T) {
	got := Env([]string{
		"ANTHROPIC_API_KEY=sk-x-1", "GITHUB_TOKEN=t-1", "DB_PASSWORD=p-1", "npm_config__auth=a-1", "accessToken=c-1",
		"HTTPS_PROXY=http://me:pw-1@proxy:1", "ANTHROPIC_CUSTOM_HEADERS=X-One: h-1\nAuthorization: Bearer h-2", "PATH=/bin", "PWD=/home/me",
		"SSH_AUTH_SOCK=/run/x", "GOOGLE_APPLICATION_CREDENTIALS=/a/b", "TOKEN_LIMIT=5", "HOME=/home/me", "KEYBOARD=us", "MAX_THINKING_TOKENS=100",
	})
	for _, want := range []string{"sk-x-1", "t-1", "p-1", "a-1", "c-1", "pw-1", "h-1", "h-2"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	for _, v := range got {
		if strings.HasPrefix(v, "/") || v == "us" || v == "5" || v == "100" {
			t.Errorf("%q is no secret", v)
		}
	}
	if got := JSON([]byte(`{"s":{"env":{"API_KEY":"k-1","MODE":"fast"},"headers":{"Authorization":"Bearer h-1"},"args":["x"],"n":1e999}}`)); !slices.Contains(got, "k-1") ||
		!slices.Contains(got, "h-1") || slices.Contains(got, "fast") || slices.Contains(got, "x") {
		t.Errorf("the secrets of the configuration are %q", got)
	}
}

func TestPlainWordsAreNoSecrets(t *testing.T) {
	for v, want := range map[string]bool{
		"short": false, "disabled": false, "password": false, "60000000": false, "xxxxxxxxxxxxxxxxxxxx": false, "redacted": false, "[redacted]": false,
		"hunter22": true, "correct-horse": true, "abcdefghijklmnop": true, "ÄÖÜäöü": true,
	} {
		if distinct(v) != want {
			t.Errorf("%q: %v", v, !want)
		}
	}
}

// FuzzKnownSecretsNeverSurvive checks that no form of a known value is left
// after redaction, and that a text in pieces gives the same result as the whole
// text.
func FuzzKnownSecretsNeverSurvive(f *testing.F) {
	f.Add(key, "before ", " after", 3, 9, uint8(0))
	f.Add("hunter22", "hunter2hunter2", "2", 1, 20, uint8(1))
	f.Add("aaaaaaaab", "aaaaaaaa", "\n-----BEGIN PRIVATE KEY-----\n", 5, 7, uint8(2))
	f.Add("sk-ant-0123456789abcdef", "task-sk-", "Authorization: Bearer ", 2, 30, uint8(3))
	f.Add("ghp_0123456789abcdefghij\n", "x\ny", "\r\n\n", 2, 30, uint8(4))
	f.Add("hunter22", "https://me:", "@host", 9, 14, uint8(0))
	f.Add("JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0", "ey", ".sig", 9, 30, uint8(0))
	f.Fuzz(func(t *testing.T, secret, before, after string, i, j int, form uint8) {
		if !distinct(secret) || !utf8.ValidString(secret) || len(secret) > 1<<10 || strings.ContainsAny(secret, "[]") || strings.Contains("redacted", secret) {
			t.Skip()
		}
		shown := secret
		switch form % 6 {
		case 1:
			q, _ := json.Marshal(secret)
			shown = string(q[1 : len(q)-1])
		case 2:
			shown = url.QueryEscape(secret)
		case 3:
			shown = base64.StdEncoding.EncodeToString([]byte(before + secret + after))
		case 4:
			shown = base64.RawURLEncoding.EncodeToString([]byte(before + secret + after))
		case 5:
			shown = hex.EncodeToString([]byte(secret))
		}
		text := before + shown + after
		i, j = int(uint(i)%uint(len(text)+1)), int(uint(j)%uint(len(text)+1))
		i, j = min(i, j), max(i, j)
		r := New(secret)
		out := r.String(text)
		if got := inPieces(r, text, i, j); got != out {
			t.Fatalf("%q cut at %d and %d became\n%q, whole\n%q", text, i, j, got, out)
		}
		for _, w := range append(plainForms(secret), encodedForms(secret)...) {
			if strings.Contains(out, w) && !strings.Contains(Marker, w) && !crosses(w) {
				t.Fatalf("%q still holds %q", out, w)
			}
		}
	})
}

// crosses reports whether w shares characters with an end of the Marker, so
// that the Marker can complete an occurrence of w.
func crosses(w string) bool {
	for n := 1; n < len(w); n++ {
		if strings.HasSuffix(Marker, w[:n]) || strings.HasPrefix(Marker, w[n:]) {
			return true
		}
	}
	return false
}

func BenchmarkSmallDelta(b *testing.B) {
	st := New(benchValues()...).Stream()
	b.ReportAllocs()
	for b.Loop() {
		st.Append("the quick brown fox jumps over it ")
	}
}

func BenchmarkText(b *testing.B) {
	r := New(benchValues()...)
	for name, text := range map[string]string{
		"prose":   strings.Repeat("The quick brown fox, said Authorization: nobody; sk-ate on. ", 2000),
		"hostile": strings.Repeat(benchValues()[0][:40]+"-----BEGIN A", 2000),
		"runs":    strings.Repeat("a", 100_000),
		"alike":   strings.Repeat("-eyJhbGciOi://me:hunter sk_live_ npm_ SG.", 2500),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.String(text)
			}
		})
	}
}

func benchValues() []string {
	var vs []string
	for i := range 20 {
		vs = append(vs, "sk-ant-api03-"+strings.Repeat(string(rune('a'+i))+"Xy9_", 18))
	}
	return append(vs, strings.Repeat("a", 200)+"b")
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		New(benchValues()...)
	}
}
