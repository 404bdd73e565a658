package httpapi

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/runnel-dev/runnel/httpapi/reply"
)

// A page is the built page; files may be nil. Its scripts and styles are in a
// folder whose name is random and new at each start of the server. A program
// that had our port and name while the server was down can have left files in
// the browser's cache, but not under a name that did not exist yet.
type page struct {
	files fs.FS
	start string // name of that folder
}

func newPage(files fs.FS) page { return page{files, rand.Text()} }

// routes returns a route for each file of the page, and one for all files in
// assets. Requests cannot reach any other file.
func (p page) routes() ([]route, error) {
	if p.files == nil {
		return nil, nil
	}
	var list []route
	err := fs.WalkDir(p.files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path.Base(name), ".") || strings.HasPrefix(name, "assets/") {
			return err
		}
		at := "/" + name
		if name == "index.html" {
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

var errNoFile = reply.Refuse(http.StatusNotFound, "the page has no such file")

func (p page) file(name string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		info, err := fs.Stat(p.files, name)
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(path.Base(name), ".") {
			return errNoFile
		}
		cache := "no-cache"
		if strings.HasPrefix(name, "assets/") { // the name of an asset changes with its content
			cache = "public, max-age=31536000, immutable"
		}
		w.Header().Set("Cache-Control", cache)
		if name == "index.html" { // ServeFileFS would redirect it
			data, err := fs.ReadFile(p.files, name)
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write(bytes.ReplaceAll(data, []byte(`"/assets/`), []byte(`"/assets/`+p.start+"/"))) // an error means that the client has disconnected
			return nil
		}
		http.ServeFileFS(w, r, p.files, name)
		return nil
	}
}
