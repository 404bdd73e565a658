package httpapi

import (
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/auth"
)

// A route is one row of the API: the router, the document and the tests are
// made from the list of them.
type route struct {
	method  string
	path    string     // as in http.ServeMux
	scope   auth.Scope // "" for the public ones
	name    string     // in the document; "" leaves the route out of it
	summary string
	params  []param
	status  int    // of success
	in, out any    // zero values of the bodies; nil for none
	stream  string // media type of the answer, if it is no JSON body
	upload  bool   // the body is a file
	bound   bool   // also for credentials that are bound to a project, to which it keeps them itself; see confine
	serve   func(w http.ResponseWriter, r *http.Request) error
}

// A param is a query parameter, or a header if its name begins with a capital.
type param struct {
	name, doc string
	number    bool
}

func (rt *route) pattern() string { return rt.method + " " + rt.path }

// answerTimeout bounds the writing of an answer that is no stream.
const answerTimeout = 30 * time.Second

// addRoutes fills the router. What no route matches is found nowhere, but only
// by those who may look.
func (s *Server) addRoutes() error {
	list := s.sessionRoutes()
	list = append(list, s.streamRoutes()...)
	list = append(list, s.accountRoutes()...)
	page, err := s.pageRoutes()
	if err != nil {
		return err
	}
	list = append(list, page...)
	for i := range list {
		s.add(&list[i])
	}
	s.add(&route{path: "/", scope: auth.Read, serve: s.nowhere})
	return s.describe()
}

func (s *Server) add(rt *route) {
	pattern := rt.path
	if rt.method != "" {
		pattern = rt.pattern()
	}
	s.routes[pattern] = rt
	s.list = append(s.list, rt)
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := s.confine(r, rt)
		if err == nil {
			err = rt.serve(w, r)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	})
}

// find returns the route of r. A path that is not clean, which the router would
// redirect, has none.
func (s *Server) find(r *http.Request) *route {
	if _, pattern := s.mux.Handler(r); s.routes[pattern] != nil && clean(r.URL.Path) {
		return s.routes[pattern]
	}
	return s.routes["/"]
}

func clean(p string) bool { return p == "/" || path.Clean(p) == strings.TrimSuffix(p, "/") }

func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt *route) {
	if r.Method == http.MethodPost && !rt.upload {
		if err := wantsJSON(r); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	if r.Method == http.MethodHead && rt.stream != "" {
		s.fail(w, r, refuse(http.StatusMethodNotAllowed, "a stream has no head without its body"))
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
	if rt == s.routes["/"] {
		if err := s.nowhere(w, r); err != nil {
			s.fail(w, r, err)
		}
		return
	}
	s.mux.ServeHTTP(w, r)
}

// nowhere answers what no route matches: 405 if another method would be one.
func (s *Server) nowhere(w http.ResponseWriter, r *http.Request) error {
	var allow []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(probe); pattern != "/" && s.routes[pattern] != nil && clean(r.URL.Path) {
			allow = append(allow, m)
		}
	}
	if len(allow) > 0 {
		w.Header().Set("Allow", strings.Join(allow, ", "))
		return refuse(http.StatusMethodNotAllowed, "this path does not take "+method(r)+"; it takes "+strings.Join(allow, ", "))
	}
	return refuse(http.StatusNotFound, "there is nothing at this path; /openapi.json lists what there is")
}

func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "this method"
}

// take makes a route of a function from a body to a body.
func take[I, O any](s *Server, rt route, f func(r *http.Request, in I) (O, error)) route {
	var in I
	var out O
	rt.method, rt.in, rt.out = http.MethodPost, in, out
	if rt.status == 0 {
		rt.status = http.StatusOK
	}
	rt.serve = func(w http.ResponseWriter, r *http.Request) error {
		var in I
		if err := s.decode(w, r, &in); err != nil {
			return err
		}
		out, err := f(r, in)
		if err != nil {
			return err
		}
		s.answer(w, rt.status, out)
		return nil
	}
	return rt
}

// give makes a route of a function to a body.
func give[O any](s *Server, rt route, f func(r *http.Request) (O, error)) route {
	var out O
	rt.out = out
	if rt.method == "" {
		rt.method = http.MethodGet
	}
	rt.status = http.StatusOK
	rt.serve = func(w http.ResponseWriter, r *http.Request) error {
		out, err := f(r)
		if err != nil {
			return err
		}
		s.answer(w, http.StatusOK, out)
		return nil
	}
	return rt
}

// empty is the body of requests and answers that say nothing more.
type empty struct{}

// pageRoutes serves the built page. Only what exists in it has a route, so that
// nothing else of the file system can be asked for.
func (s *Server) pageRoutes() ([]route, error) {
	if s.cfg.UI == nil {
		return nil, nil
	}
	var list []route
	err := fs.WalkDir(s.cfg.UI, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path.Base(name), ".") || strings.HasPrefix(name, "assets/") {
			return err
		}
		at := "/" + name
		if name == "index.html" {
			at = "/{$}"
		}
		list = append(list, route{method: http.MethodGet, path: at, serve: s.file(name)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	assets := route{method: http.MethodGet, path: "/assets/{path...}", serve: func(w http.ResponseWriter, r *http.Request) error {
		return s.file("assets/"+r.PathValue("path"))(w, r)
	}}
	return append(list, assets), nil
}

func (s *Server) file(name string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		info, err := fs.Stat(s.cfg.UI, name)
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(path.Base(name), ".") {
			return refuse(http.StatusNotFound, "the page has no such file")
		}
		cache := "no-cache"
		if strings.HasPrefix(name, "assets/") { // their names change with their content
			cache = "public, max-age=31536000, immutable"
		}
		w.Header().Set("Cache-Control", cache)
		if name == "index.html" { // ServeFileFS would redirect it
			data, err := fs.ReadFile(s.cfg.UI, name)
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, err = w.Write(data)
			return err
		}
		http.ServeFileFS(w, r, s.cfg.UI, name)
		return nil
	}
}
