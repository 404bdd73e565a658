package httpapi

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/httpapi/reply"
)

// For the same reason the random name is part of every ETag. The server then
// does not answer 304 for a file that such a program left with an ETag of an
// earlier start. The files do not change while the server runs, so an ETag
// needs no hash.
type page struct {
	files fs.FS
	start string // name of that folder
}

const index = "index.html"

func newPage(files fs.FS) page { return page{files, rand.Text()} }

// routes returns a route for each file of the page, and one for all files in
// assets. Requests cannot reach any other file.
func (p page) routes() ([]route, error) {
	if p.files == nil {
		return nil, nil
	}
	var list []route
	err := fs.WalkDir(p.files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || hidden(name) || strings.HasPrefix(name, "assets/") {
			return err
		}
		at := "/" + name
		if name == index {
			at = "/{$}"
		}
		list = append(list, route{method: http.MethodGet, path: at, page: true, serve: p.file(name)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	assets := route{method: http.MethodGet, path: "/assets/{path...}", page: true, serve: func(w http.ResponseWriter, r *http.Request) error {
		name, ok := strings.CutPrefix(r.PathValue("path"), p.start+"/")
		if !ok {
			return errNoFile
		}
		return p.file("assets/"+name)(w, r)
	}}
	return append(list, assets), nil
}

// hidden reports whether a file has no address of its own: a file that is not
// part of the page, or another file in a coding.
func hidden(name string) bool {
	return strings.HasPrefix(path.Base(name), ".") || slices.ContainsFunc(compressed, func(c coding) bool { return path.Ext(name) == c.ext })
}

var (
	errNoFile   = reply.NewError(http.StatusNotFound, "the page has no such file")
	errNoCoding = reply.NewError(http.StatusNotAcceptable, "this file has none of the codings that Accept-Encoding allows; allow identity")
)

// file returns a handler that serves one file, in the coding that the client
// prefers. Ranges are those of the file in that coding.
func (p page) file(name string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if hidden(name) || !p.has(name) {
			return errNoFile
		}
		h := w.Header()
		secureFile(h, name)
		h.Add("Vary", "Accept-Encoding")
		c, ok := negotiate(r.Header.Values("Accept-Encoding"), p.codings(name))
		if !ok {
			return errNoCoding
		}
		content, err := p.open(name + c.ext)
		if err != nil {
			return err
		}
		defer content.Close()
		if c != identity { // http.ServeContent sets no length of a body with a coding
			size, err := content.Seek(0, io.SeekEnd)
			if err != nil {
				return err
			}
			h.Set("Content-Encoding", c.name)
			h.Set("Content-Length", strconv.FormatInt(size, 10))
		}
		h.Set("ETag", strconv.Quote(p.start+c.ext))
		h.Set("Content-Type", cmp.Or(mime.TypeByExtension(path.Ext(name)), "application/octet-stream"))
		h.Set("Cache-Control", "no-cache")
		if strings.HasPrefix(name, "assets/") { // the name of an asset changes with its content
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		http.ServeContent(w, r, name, time.Time{}, content)
		return nil
	}
}

// codings returns the codings in which a file is stored.
func (p page) codings(name string) (list []coding) {
	for _, c := range compressed {
		if name != index && p.has(name+c.ext) {
			list = append(list, c)
		}
	}
	return list
}

func (p page) has(name string) bool {
	info, err := fs.Stat(p.files, name)
	return err == nil && info.Mode().IsRegular()
}

// open opens a file. In index.html, the addresses of scripts and styles get the
// random name of their folder, so the build cannot compress it.
func (p page) open(name string) (io.ReadSeekCloser, error) {
	if name != index {
		return http.FS(p.files).Open(name)
	}
	data, err := fs.ReadFile(p.files, name)
	data = bytes.ReplaceAll(data, []byte(`"./assets/`), []byte(`"./assets/`+p.start+"/"))
	return inMemory{bytes.NewReader(data)}, err
}

type inMemory struct{ *bytes.Reader }

func (inMemory) Close() error { return nil }
