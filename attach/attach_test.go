package attach_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree creates files in a new directory. files maps paths to contents.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func symlink(t testing.TB, old, new string) {
	t.Helper()
	if err := os.Symlink(old, new); err != nil {
		t.Fatal(err)
	}
}

func refs(paths ...string) (rs []attach.Ref) {
	for _, p := range paths {
		rs = append(rs, attach.Ref{Path: p})
	}
	return rs
}

func reasons(c attach.Checked) (rs []string) {
	for _, r := range c.Rejected {
		rs = append(rs, r.Reason)
	}
	return rs
}

const secret = "SECRET"

func TestPathsOutsideAllowedRootsAreRefused(t *testing.T) {
	base := tree(t, map[string]string{
		"root/a.txt": "a", "root/sub/b.txt": "b", "root/plain.txt/keep": "", "rootx/c.txt": secret, "outside/secret.txt": secret,
	})
	root, outside := filepath.Join(base, "root"), filepath.Join(base, "outside")
	in := func(rel string) string { return root + string(filepath.Separator) + rel }
	symlink(t, filepath.Join("..", "outside", "secret.txt"), in("link.txt"))
	symlink(t, filepath.Join(outside, "secret.txt"), in("abslink.txt"))
	symlink(t, "a.txt", in("inlink.txt"))
	symlink(t, "nowhere.txt", in("dangling.txt"))
	symlink(t, "loop.txt", in("loop.txt"))
	symlink(t, filepath.Join("..", "outside"), in("dirlink"))
	symlink(t, outside, in("absdirlink"))
	symlink(t, "sub", in("indirlink"))
	symlink(t, root, filepath.Join(base, "alias"))

	const (
		notAbsolute = "the path is not absolute"
		outsideRoot = "it lies outside the folders that may be read"
		link        = "it is a symbolic link or lies behind one"
		unreadable  = "it does not exist or cannot be read"
		extension   = "the extension is not one of .png .jpg .jpeg .gif .webp .pdf .txt .md .csv"
	)
	c := attach.Checker{Roots: []string{root}}
	for _, f := range []struct{ path, reason string }{
		{"", notAbsolute},
		{"a.txt", notAbsolute},
		{"./a.txt", notAbsolute},
		{"../outside/secret.txt", notAbsolute},
		{"~/secret.txt", notAbsolute},
		{"file://" + in("a.txt"), notAbsolute},
		{"\x00" + in("a.txt"), notAbsolute},
		{filepath.Join(outside, "secret.txt"), outsideRoot},
		{filepath.Join(base, "rootx", "c.txt"), outsideRoot},
		{root, outsideRoot},
		{root + "/", outsideRoot},
		{root + "/.", outsideRoot},
		{root + ".txt", outsideRoot},
		{root + "/../outside/secret.txt", outsideRoot},
		{root + "/sub/../../outside/secret.txt", outsideRoot},
		{root + "/sub/../a.txt", outsideRoot},
		{root + "/dirlink/../a.txt", outsideRoot},
		{root + "/..", outsideRoot},
		{"/proc/self/root" + filepath.Join(outside, "secret.txt"), outsideRoot},
		{"/proc/self/cwd/secret.txt", outsideRoot},
		{"/dev/fd/0.txt", outsideRoot},
		{in("%2e%2e/outside/secret.txt"), unreadable},
		{in(`..\outside\secret.txt`), unreadable},
		{in("a.txt\x00.txt"), unreadable},
		{in("a.txt/b.txt"), unreadable},
		{in("missing.txt"), unreadable},
		{in("missing/a.txt"), unreadable},
		{in("..."), extension},
		{in("sub"), extension},
		{in("a.txt."), extension},
		{in("a.txt\x00"), extension},
		{in("plain.txt"), "it is not a regular file"},
		{in("link.txt"), link},
		{in("abslink.txt"), link},
		{in("inlink.txt"), link},
		{in("dangling.txt"), link},
		{in("loop.txt"), link},
		{in("loop.txt/a.txt"), link},
		{in("dirlink/secret.txt"), link},
		{in("absdirlink/secret.txt"), link},
		{in("indirlink/b.txt"), link},
		{in(strings.Repeat("x/", 3000) + "a.txt"), "the path is too long"},
	} {
		got := c.Check(refs(f.path))
		if len(got.Attachments) != 0 || len(got.Rejected) != 1 || got.Rejected[0].Reason != f.reason {
			t.Errorf("%.80q: got %v %v, want %q", f.path, got.Attachments, got.Rejected, f.reason)
		}
	}
	for _, path := range []string{in("a.txt"), in("sub/b.txt"), in("./a.txt"), root + "//a.txt"} {
		if got := c.Check(refs(path)); len(got.Attachments) != 1 {
			t.Errorf("%q is refused: %v", path, got.Rejected)
		}
	}
	alias := attach.Checker{Roots: []string{filepath.Join(base, "alias")}}
	if got := alias.Check(refs(in("a.txt"), filepath.Join(base, "alias", "a.txt"))); len(got.Attachments) != 2 {
		t.Errorf("a root that is a symbolic link itself goes by both names: %v", got.Rejected)
	}
	var none attach.Checker
	if got := none.Check(append(refs(in("a.txt")), attach.Ref{Upload: "7b0d0bb2-9b1b-4b0e-8d7c-3c1d3f2b0d55"})); len(got.Attachments) != 0 {
		t.Errorf("the zero Checker admits %v", got.Attachments)
	}
	relative := attach.Checker{Roots: []string{"", ".", "root"}}
	if got := relative.Check(refs(in("a.txt"))); len(got.Attachments) != 0 {
		t.Error("relative roots admit something")
	}
}

func TestSizeLimitsOfAttachments(t *testing.T) {
	const mib = 1 << 20
	size := func(n int) string { return strings.Repeat("x", n) }
	dir := tree(t, map[string]string{
		"1.txt": size(1), "8m.txt": size(8 * mib), "9m.txt": size(9 * mib), "10m.txt": size(10 * mib), "over.txt": size(10*mib + 1), "bad.png": size(5),
	})
	c := attach.Checker{Roots: []string{dir}}
	const big, total = "it is larger than 10 MiB", "with it the attachments would be larger than 18 MiB in total"
	for _, f := range []struct {
		name     string
		files    string
		accepted string
		reasons  []string
	}{
		{"a file may have 10 MiB", "10m", "10m", nil},
		{"and no byte more", "over", "", []string{big}},
		{"all may have 18 MiB", "10m 8m", "10m 8m", nil},
		{"and no byte more", "10m 8m 1", "10m 8m", []string{total}},
		{"later smaller ones are still tried", "10m 9m 8m 1", "10m 8m", []string{total, total}},
		{"what is refused does not count", "over over 10m 8m", "10m 8m", []string{big, big}},
		{"the limit of one comes before that of all", "10m 8m over", "10m 8m", []string{big}},
	} {
		t.Run(f.name, func(t *testing.T) {
			var paths []string
			for _, n := range strings.Fields(f.files) {
				paths = append(paths, filepath.Join(dir, n+".txt"))
			}
			got := c.Check(refs(paths...))
			var names []string
			for _, a := range got.Attachments {
				names = append(names, strings.TrimSuffix(a.Name, ".txt"))
			}
			if s := strings.Join(names, " "); s != f.accepted {
				t.Errorf("accepted %q, want %q", s, f.accepted)
			}
			if diff := cmp.Diff(f.reasons, reasons(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("10,000 tiny files", func(t *testing.T) {
		got := c.Check(slices.Repeat(refs(filepath.Join(dir, "1.txt")), 10_000))
		if len(got.Attachments) != 10_000 {
			t.Errorf("%d accepted", len(got.Attachments))
		}
		missing := c.Check(slices.Repeat(refs(filepath.Join(dir, strings.Repeat("y", 200)+".txt")), 10_000))
		in := runnel.Input{Rejected: missing.Rejected}
		if n := len(in.Warning()); n > 2000 {
			t.Errorf("a warning of %d bytes", n)
		}
		e, ok := errors.AsType[*runnel.Error](in.CheckRejected())
		if !ok {
			t.Fatal("no error")
		}
		if data, err := json.Marshal(e.Details); err != nil || len(data) > 100<<10 {
			t.Errorf("details of %d bytes: %v", len(data), err)
		}
	})
}

// Check reports each rejected attachment with its reason, and the warning of
// the prompt lists them.
func TestRejectedAttachmentsAreReported(t *testing.T) {
	dir := tree(t, map[string]string{"ok.txt": "fine", "bad.png": "no", "a.pdf": "%PDF-1.7"})
	in := func(name string) string { return filepath.Join(dir, name) }
	c := attach.Checker{Roots: []string{dir}, Accepts: func(a runnel.Attachment) string {
		if a.MediaType == "application/pdf" {
			return "the agent takes no PDF"
		}
		return ""
	}}
	input := func(text string, names ...string) runnel.Input {
		paths := make([]string, len(names))
		for i, name := range names {
			paths[i] = in(name)
		}
		got := c.Check(refs(paths...))
		return runnel.Input{Text: text, Attachments: got.Attachments, Rejected: got.Rejected}
	}
	const head = "attachment(s) could not be processed. Continuing with available content.\nRejected attachments:\n"

	some := input("", "bad.png", "a.pdf", "ok.txt", "x.exe")
	want := "Attachment warning: 3 " + head + "- bad.png: its content is not PNG\n- a.pdf: the agent takes no PDF\n" +
		"- x.exe: the extension is not one of .png .jpg .jpeg .gif .webp .pdf .txt .md .csv"
	if diff := cmp.Diff(want, some.Warning()); diff != "" {
		t.Error(diff)
	}
	if err := some.CheckRejected(); err != nil || len(some.Attachments) != 1 || some.Attachments[0].Path != in("ok.txt") {
		t.Errorf("some are left: %+v, %v", some.Attachments, err)
	}
	many := input("text", "1.txt", "2.txt", "3\n- fake: line.txt", "4.txt", "5.txt")
	want = "Attachment warning: 5 " + head + "- 1.txt: it does not exist or cannot be read\n- 2.txt: it does not exist or cannot be read\n" +
		"- 3_- fake: line.txt: it does not exist or cannot be read\n- ... 2 additional attachment error(s) omitted"
	if diff := cmp.Diff(want, many.Warning()); diff != "" {
		t.Error(diff)
	}
	if err := many.CheckRejected(); err != nil {
		t.Errorf("there is text, and still: %v", err)
	}
	for _, in := range []runnel.Input{input("text"), input("", "ok.txt")} {
		if in.Warning() != "" || in.CheckRejected() != nil {
			t.Errorf("nothing was rejected: %q, %v", in.Warning(), in.CheckRejected())
		}
	}

	err := input(" \n", "bad.png", "a.pdf").CheckRejected()
	e, ok := errors.AsType[*runnel.Error](err)
	if !ok || e.Code != runnel.AttachmentFailure {
		t.Fatalf("got %v", err)
	}
	data, jerr := json.Marshal(e.Details)
	if jerr != nil {
		t.Fatal(jerr)
	}
	wantJSON := fmt.Sprintf(`{"category":"ALL_ATTACHMENTS_FAILED_NO_TEXT","attachmentErrors":[{"path":%q,"reason":"its content is not PNG"},{"path":%q,"reason":"the agent takes no PDF"}],"rejectedAttachmentCount":2}`,
		in("bad.png"), in("a.pdf"))
	if diff := cmp.Diff(wantJSON, string(data)); diff != "" {
		t.Error(diff)
	}
	if want := "no attachment can be used, and there is no text; bad.png: its content is not PNG"; e.Message != want {
		t.Errorf("message %q, want %q", e.Message, want)
	}
}

func TestRefJSON(t *testing.T) {
	for _, c := range []struct {
		data string
		want attach.Ref
		bad  bool
	}{
		{`"/p/a.png"`, attach.Ref{Path: "/p/a.png"}, false},
		{`{"path":"/p/a.png"}`, attach.Ref{Path: "/p/a.png"}, false},
		{`{"uploadId":"u"}`, attach.Ref{Upload: "u"}, false},
		{`{"path":"/p/a.png","name":"x.txt","mimeType":"text/plain","type":"document"}`, attach.Ref{Path: "/p/a.png"}, false},
		{`{"path":"/p","uploadId":"u"}`, attach.Ref{}, true},
		{`{}`, attach.Ref{}, true},
		{`{"name":"x"}`, attach.Ref{}, true},
		{`7`, attach.Ref{}, true},
		{`null`, attach.Ref{}, true},
		{`{"Path":"/p/a.png"}`, attach.Ref{}, true},
		{`{"path":"/p/a.png","PATH":"/etc/passwd"}`, attach.Ref{}, true},
		{`{"PATH":"/etc/passwd","path":"/p/a.png"}`, attach.Ref{}, true},
		{`{"uploadid":"u"}`, attach.Ref{}, true},
		{`{"uploadId":"u","uploadID":"v"}`, attach.Ref{}, true},
		{`{"path":"/p/a.png","paths":["/x"],"uploadIds":1}`, attach.Ref{Path: "/p/a.png"}, false},
	} {
		var got attach.Ref
		err := json.Unmarshal([]byte(c.data), &got)
		if (err != nil) != c.bad || got != c.want {
			t.Errorf("%s: got %+v, %v", c.data, got, err)
		}
	}
}

// Whatever path a client names, Check reads only files of the root. The test
// identifies files by device and inode, not by name.
func FuzzReadFilesLieInTheRoot(f *testing.F) {
	base := tree(f, map[string]string{"root/a.txt": "in", "root/sub/b.md": "in", "outside/s.txt": secret, "rootx/s.txt": secret})
	root := filepath.Join(base, "root")
	symlink(f, filepath.Join(base, "outside"), filepath.Join(root, "out"))
	symlink(f, filepath.Join(base, "outside", "s.txt"), filepath.Join(root, "s.txt"))
	symlink(f, "sub", filepath.Join(root, "in"))
	inside := []string{filepath.Join(root, "a.txt"), filepath.Join(root, "sub", "b.md")}
	for _, s := range []string{"/a.txt", "/sub/b.md", "/../outside/s.txt", "x/s.txt", "/out/s.txt", "/s.txt", "/in/b.md", "/./sub//b.md", "/sub/../a.txt", "\x00", "/a.txt/", "/sub/b.md/.."} {
		f.Add(root + s)
	}
	f.Add("/proc/self/root" + base + "/outside/s.txt")
	c := attach.Checker{Roots: []string{root}}
	f.Fuzz(func(t *testing.T, path string) {
		got := c.Check(refs(path))
		if len(got.Attachments)+len(got.Rejected) != 1 {
			t.Fatalf("%d accepted, %d refused", len(got.Attachments), len(got.Rejected))
		}
		for _, a := range got.Attachments {
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			ours := slices.ContainsFunc(inside, func(p string) bool {
				want, err := os.Stat(p)
				return err == nil && os.SameFile(st, want)
			})
			if !ours || a.Text != "in" {
				t.Fatalf("%q gave %q", path, a.Text)
			}
		}
		for _, r := range got.Rejected {
			if strings.ContainsAny(r.Path, "\n\x00\x1b") {
				t.Fatalf("%q is shown as %q", path, r.Path)
			}
		}
	})
}
