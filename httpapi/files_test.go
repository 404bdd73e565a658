package httpapi

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/files"
	"github.com/runnel-dev/runnel/gateway"
)

const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// project fills the rig's project directory.
func (rg *rig) project(files map[string]string) {
	rg.t.Helper()
	for name, content := range files {
		at := filepath.Join(rg.dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			rg.t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			rg.t.Fatal(err)
		}
	}
}

func png(t *testing.T) string {
	data, err := base64.StdEncoding.DecodeString(onePixel)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func pathsOf(c files.Completion) (out []string) {
	for _, f := range c.Files {
		out = append(out, f.Path)
	}
	return out
}

func TestFilesOfAProjectAreCompletedListedAndRead(t *testing.T) {
	rg := newRig(t)
	rg.project(map[string]string{"src/session.go": "package src\n\nfunc main() {}\n", "README.md": "# x", ".env": "KEY=1", "logo.png": png(t)})
	id := rg.create()
	rg.token = rg.mint(auth.Read)
	of := "/api/session/" + id

	if got := pathsOf(call[files.Completion](rg, "GET", of+"/files?query=sess", "", 200)); !slices.Equal(got, []string{"src/session.go"}) {
		t.Errorf("completed: %q", got)
	}
	if got := pathsOf(call[files.Completion](rg, "GET", of+"/files?limit=2", "", 200)); !slices.Equal(got, []string{"README.md", "logo.png"}) {
		t.Errorf("completed: %q", got)
	}
	l := call[files.Listing](rg, "GET", of+"/folder", "", 200)
	if len(l.Entries) != 3 || l.Entries[0] != (files.ListedEntry{Name: "src", Kind: files.KindFolder, ModifiedAt: l.Entries[0].ModifiedAt}) {
		t.Errorf("listed: %+v", l)
	}
	f := call[files.File](rg, "GET", of+"/file?path=src/session.go&from=3&to=3", "", 200)
	if f.Text != "func main() {}\n" || f.From != 3 || f.To != 3 || f.Lines != 3 || f.Content != files.ContentText {
		t.Errorf("read: %+v", f)
	}
	for target, want := range map[string]string{
		"/file?path=none": "404 INVALID_REQUEST", "/file?path=.env": "403 FORBIDDEN", "/file?path=../x": "400 INVALID_REQUEST", "/file": "404 INVALID_REQUEST", "/file?path=a&from=-1": "400 INVALID_REQUEST",
		"/folder?path=README.md": "404 INVALID_REQUEST", "/files?limit=x": "400 INVALID_REQUEST", "/files?query=" + strings.Repeat("x", 201): "400 INVALID_REQUEST", "/image?path=README.md": "400 INVALID_REQUEST", "/image": "404 INVALID_REQUEST",
	} {
		if w := rg.do("GET", of+target, ""); http.StatusText(w.Code) == "" || want != strings.Join([]string{itoa(w.Code), code(w)}, " ") {
			t.Errorf("%s: got %d %s, want %s", target, w.Code, w.Body, want)
		}
	}
}

func itoa(n int) string {
	return string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
}

// A browser that opens an image as a page, frame or script runs nothing of it.
func TestImagesAreInert(t *testing.T) {
	rg := newRig(t)
	rg.project(map[string]string{"a \"b\".png": png(t), "x.svg": "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "fake.png": "<html><script>alert(1)</script>"})
	id := rg.create()
	w := rg.do("GET", "/api/session/"+id+"/image?path="+url.QueryEscape(`a "b".png`), "")
	if w.Code != 200 || w.Body.String() != png(t) {
		t.Fatalf("got %d %.100q", w.Code, w.Body)
	}
	for name, want := range map[string]string{
		"Content-Type": "image/png", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox",
		"Content-Disposition": `attachment; filename="a \"b\".png"`, "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := w.Header().Values(name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q", name, got)
		}
	}
	for _, name := range []string{"x.svg", "fake.png"} {
		if w := rg.do("GET", "/api/session/"+id+"/image?path="+name, ""); w.Code != 400 || code(w) != "INVALID_REQUEST" {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
}

// For a token of one project, the directory of another looks like one that does
// not exist, and the machine's directories are not listed.
func TestFilesOfOtherProjectsAreIsolated(t *testing.T) {
	rg := newRig(t)
	mine, theirs := t.TempDir(), t.TempDir()
	rg.dir = theirs
	rg.project(map[string]string{"theirs.txt": "x"})
	rg.create()
	rg.dir = mine
	rg.project(map[string]string{"mine.txt": "x"})
	whole := rg.token
	rg.token = rg.bind(mine, "read", "send", "approve")
	in := func(dir string) string { return "/api/files?projectDir=" + url.QueryEscape(dir) }
	if got := pathsOf(call[files.Completion](rg, "GET", in(mine), "", 200)); !slices.Equal(got, []string{"mine.txt"}) {
		t.Errorf("completed: %q", got)
	}
	gone := rg.do("GET", in(filepath.Join(theirs, "none")), "")
	for _, dir := range []string{theirs, filepath.Dir(mine), "/", mine + "/../" + filepath.Base(theirs)} {
		w := rg.do("GET", in(dir), "")
		if w.Code != 404 || code(w) != string(runnel.WorkingRootInaccessible) || !bytes.Equal(w.Body.Bytes(), gone.Body.Bytes()) {
			t.Errorf("%s: got %d %s, not %s", dir, w.Code, w.Body, gone.Body)
		}
	}
	for _, path := range []string{"", "?path=" + url.QueryEscape(mine+"/"), "?path=/none/"} {
		if w := rg.do("GET", "/api/folders"+path, ""); w.Code != 403 || code(w) != "FORBIDDEN" {
			t.Errorf("folders%s: got %d %s", path, w.Code, w.Body)
		}
	}
	rg.token = whole
	if got := pathsOf(call[files.Completion](rg, "GET", in(theirs), "", 200)); !slices.Equal(got, []string{"theirs.txt"}) {
		t.Errorf("completed: %q", got)
	}
	rg.token = rg.mint(auth.Read)
	for _, target := range []string{in(theirs), "/api/folders"} { // a client that may not start a session sees no directory without one
		if w := rg.do("GET", target, ""); w.Code != 403 {
			t.Errorf("%s: got %d %s", target, w.Code, w.Body)
		}
	}
}

func TestFoldersSuggestWhereASessionCanStart(t *testing.T) {
	real := func(dir string) string {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			t.Fatal(err)
		}
		return real
	}
	home, here := real(t.TempDir()), real(t.TempDir())
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for _, dir := range []string{"data", "code/app/.git"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	rg := newRig(t, func(_ *Config, g *gateway.Config) { g.DataDir = filepath.Join(home, "data") })
	for dir, want := range map[string]string{here: here, home: filepath.Join(home, "code", "app"), "/": filepath.Join(home, "code", "app")} {
		t.Chdir(dir)
		got := call[files.Folders](rg, "GET", "/api/folders", "", 200)
		if got.Suggested != want || got.Home != home || len(got.Repositories) != 1 {
			t.Errorf("in %s: got %+v, want %s", dir, got, want)
		}
	}
	if got := call[files.Folders](rg, "GET", "/api/folders?path=~/", "", 200); got.Suggested != "" || len(got.Folders) != 1 {
		t.Errorf("with a path: got %+v", got)
	}
}

func TestFoldersAreCreatedByUnboundCredentialsOnly(t *testing.T) {
	log, err := audit.Open(audit.Config{Place: audit.Place{Dir: filepath.Join(t.TempDir(), "audit"), Head: filepath.Join(t.TempDir(), "head"), Secret: "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Audit = log })
	body := func(path, name string) string {
		return fmt.Sprintf(`{"path":%q,"name":%q}`, path, name)
	}
	whole := rg.token
	rg.token = rg.bind(rg.dir, "read", "send", "approve")
	if w := rg.do("POST", "/api/folders", body(rg.dir, "a")); w.Code != 403 {
		t.Errorf("bound: got %d %s", w.Code, w.Body)
	}
	rg.token = rg.mint(auth.Read)
	if w := rg.do("POST", "/api/folders", body(rg.dir, "a")); w.Code != 403 {
		t.Errorf("to read: got %d %s", w.Code, w.Body)
	}
	rg.token = whole
	for name, want := range map[string]int{"../a": 400, "": 400, ".git": 400} {
		if w := rg.do("POST", "/api/folders", body(rg.dir, name)); w.Code != want || !strings.Contains(w.Body.String(), "name: ") {
			t.Errorf("%q: got %d %s", name, w.Code, w.Body)
		}
	}
	if w := rg.do("POST", "/api/folders", body(filepath.Join(rg.dir, "none"), "a")); w.Code != 404 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	got := call[files.Folder](rg, "POST", "/api/folders", body(rg.dir, "a"), 201)
	if info, err := os.Stat(filepath.Join(rg.dir, "a")); err != nil || !info.IsDir() || got.Path != filepath.Join(rg.dir, "a") || got.Refused != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	if w := rg.do("POST", "/api/folders", body(rg.dir, "a")); w.Code != 400 {
		t.Errorf("again: got %d %s", w.Code, w.Body)
	}
	rg.token = rg.mint(auth.Admin)
	var created []string
	for _, e := range call[auditAnswer](rg, "GET", "/api/audit", "", 200).Entries {
		if e.Kind == audit.FolderCreated {
			created = append(created, e.What)
		}
	}
	if !slices.Equal(created, []string{got.Path}) {
		t.Errorf("audit: %q", created)
	}
}

func TestFoldersSayWhereNoSessionCanStart(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for _, dir := range []string{".local/share/runnel", "code"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	rg := newRig(t, func(_ *Config, g *gateway.Config) { g.DataDir = filepath.Join(home, ".local/share/runnel") })
	const why = "contains runnel's own data"
	got := call[files.Folders](rg, "GET", "/api/folders?path=~/", "", 200)
	if !strings.Contains(got.Refused, why) || len(got.Folders) != 1 || got.Folders[0].Refused != "" {
		t.Errorf("got %+v", got)
	}
	got = call[files.Folders](rg, "GET", "/api/folders?path=~/.l", "", 200)
	if len(got.Folders) != 1 || !strings.Contains(got.Folders[0].Refused, why) {
		t.Errorf("got %+v", got)
	}
}

func TestDataDirectoryIsNeverListed(t *testing.T) {
	data, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rg := newRig(t, func(_ *Config, g *gateway.Config) { g.DataDir = data })
	for _, dir := range []string{data, filepath.Dir(data), filepath.Join(data, "uploads")} {
		if w := rg.do("GET", "/api/files?projectDir="+url.QueryEscape(dir), ""); w.Code != 409 {
			t.Errorf("files in %s: got %d %s", dir, w.Code, w.Body)
		}
	}
	if w := rg.do("GET", "/api/folders?path="+url.QueryEscape(data+"/"), ""); w.Code != 404 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	for _, f := range call[files.Folders](rg, "GET", "/api/folders?path="+url.QueryEscape(filepath.Dir(data)+"/"), "", 200).Folders {
		if f.Path == data {
			t.Error("the data directory is listed")
		}
	}
}

// A secret that the server knows does not leave it in a file either.
func TestFilesAreRedacted(t *testing.T) {
	rg := newRig(t, func(_ *Config, g *gateway.Config) {
		g.Filter = func(runnel.Options) runnel.Filter { return hides("hunter2") }
	})
	rg.project(map[string]string{"a.txt": "password: hunter2\n"})
	if f := call[files.File](rg, "GET", "/api/session/"+rg.create()+"/file?path=a.txt", "", 200); f.Text != "password: [redacted]\n" {
		t.Errorf("got %q", f.Text)
	}
}

// hides is a filter that hides one secret in texts.
type hides string

func (h hides) Event(ev event.Event) []event.Event { return []event.Event{ev} }
func (h hides) End() []event.Event                 { return nil }
func (h hides) Text(s string) string               { return strings.ReplaceAll(s, string(h), "[redacted]") }

func TestFilesOfAMovedProjectAreNotRead(t *testing.T) {
	rg := newRig(t)
	other := t.TempDir()
	rg.dir = filepath.Join(rg.dir, "project")
	rg.project(map[string]string{"a.txt": "x"})
	id := rg.create()
	if err := os.RemoveAll(rg.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, rg.dir); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/files", "/folder", "/file?path=a.txt", "/image?path=a.txt"} {
		if w := rg.do("GET", "/api/session/"+id+target, ""); w.Code != 404 || code(w) != string(runnel.WorkingRootInaccessible) {
			t.Errorf("%s: got %d %s", target, w.Code, w.Body)
		}
	}
}

// A directory in the place of the server's configuration would keep the server
// from starting again.
func TestNoFolderTakesThePlaceOfTheServersFiles(t *testing.T) {
	config := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(config, link); err != nil {
		t.Fatal(err)
	}
	rg := newRig(t, func(_ *Config, c *gateway.Config) {
		c.Protected = []string{filepath.Join(link, "config.yaml"), filepath.Join(config, "profiles")}
	})
	rg.token = rg.mint(auth.Send)
	for _, name := range []string{"config.yaml", "profiles", "other"} {
		for _, dir := range []string{config, link} {
			w := rg.do("POST", "/api/folders", fmt.Sprintf(`{"path":%q,"name":%q}`, dir, name))
			if _, err := os.Lstat(filepath.Join(config, name)); err == nil != (name == "other") {
				t.Errorf("%s in %s: %d %s", name, dir, w.Code, w.Body)
			}
		}
	}
}
