package httpapi

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// A route is one row of the API. The router, the OpenAPI document and the tests
// are made from the list of routes.
type route struct {
	method  string
	path    string     // pattern of http.ServeMux
	scope   auth.Scope // "" if no credential is needed
	name    string     // operation in the document; "" leaves the route out
	tag     string     // group in the document
	summary string
	about   string // further sentences of the description in the document
	params  []param
	status  int           // of a successful answer
	in, out any           // zero values of the body types; nil for none
	media   []string      // media types of the answer, if it is not JSON
	stream  bool          // the answer is a stream, so HEAD is rejected
	upload  bool          // the body is a file
	fails   []runnel.Code // errors beyond those that follow from the other fields; see codes
	refused []int         // further statuses of INVALID_REQUEST; see refusals
	page    bool          // is served only under a Host of the page
	unread  bool          // the handler itself counts unread bytes, or all answers share one copy; see Streams.Unread
	endsOwn bool          // the handler may end the caller's own credential; its answer is written even then
	bound   bool          // the handler itself restricts a bound credential to its project; see confine
	serve   func(w http.ResponseWriter, r *http.Request) error
}

// A param is a query parameter, or a header if its name begins with a capital
// letter.
type param struct {
	name, doc string
	number    bool     // a whole number of zero or more
	flag      bool     // true or false
	values    []string // all allowed values. Default: any
	required  bool
}

func (rt *route) pattern() string { return rt.method + " " + rt.path }

// A router finds the route of a request. A request that matches no route gets a
// 404 or 405, but only if the caller has the scope read. So callers without a
// credential cannot find out which paths exist.
type router struct {
	visible access.Sessions
	reply   reply.Writer
	mux     *http.ServeMux
	routes  map[string]*route // by pattern
	list    []*route
}

func newRouter(visible access.Sessions, w reply.Writer, list []route) *router {
	rs := &router{visible: visible, reply: w, mux: http.NewServeMux(), routes: make(map[string]*route)}
	for i := range list {
		rs.add(&list[i])
	}
	rs.add(&route{path: "/", scope: auth.Read, serve: rs.nowhere})
	return rs
}

func (rs *router) add(rt *route) {
	pattern := rt.path
	if rt.method != "" {
		pattern = rt.pattern()
	}
	rs.routes[pattern] = rt
	rs.list = append(rs.list, rt)
	rs.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := rs.confine(r, rt)
		if err == nil {
			err = rt.serve(w, r)
		}
		if err != nil && !errors.Is(context.Cause(r.Context()), auth.ErrEnded) { // Server.served answers a request whose credential has ended
			rs.reply.Error(w, r, err)
		}
	})
}

// find returns the route of r. A path that is not clean, to which ServeMux
// would answer with a redirect, counts as one without a route.
func (rs *router) find(r *http.Request) *route {
	if _, pattern := rs.mux.Handler(r); rs.routes[pattern] != nil && clean(r.URL.Path) {
		return rs.routes[pattern]
	}
	return rs.routes["/"]
}

func clean(p string) bool { return p == "/" || path.Clean(p) == strings.TrimSuffix(p, "/") }

func (rs *router) serve(w http.ResponseWriter, r *http.Request, rt *route) {
	if r.Method == http.MethodPost && !rt.upload {
		if err := reply.WantsJSON(r); err != nil {
			rs.reply.Error(w, r, err)
			return
		}
	}
	if r.Method == http.MethodHead && rt.stream {
		rs.reply.Error(w, r, reply.NewError(http.StatusMethodNotAllowed, "a stream has no head without its body"))
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(reply.Timeout))
	if rt == rs.routes["/"] {
		if err := rs.nowhere(w, r); err != nil {
			rs.reply.Error(w, r, err)
		}
		return
	}
	rs.mux.ServeHTTP(w, r)
}

// nowhere answers a request that matches no route: 405 if the path has a route
// for another method, else 404.
func (rs *router) nowhere(w http.ResponseWriter, r *http.Request) error {
	var allow []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := rs.mux.Handler(probe); pattern != "/" && rs.routes[pattern] != nil && clean(r.URL.Path) {
			allow = append(allow, m)
		}
	}
	if len(allow) > 0 {
		w.Header().Set("Allow", strings.Join(allow, ", "))
		return reply.NewError(http.StatusMethodNotAllowed, "this path does not support "+method(r)+"; use "+strings.Join(allow, " or "))
	}
	return reply.NewError(http.StatusNotFound, "there is nothing at this path; /openapi.json lists what there is")
}

func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "this method"
}

// handleJSON returns rt as a POST route whose handler decodes a JSON body for f
// and answers with f's result as JSON.
func handleJSON[I, O any](rt route, f func(r *http.Request, in I) (O, error)) route {
	var in I
	var out O
	rt.method, rt.in, rt.out = http.MethodPost, in, out
	if rt.status == 0 {
		rt.status = http.StatusOK
	}
	rt.serve = func(w http.ResponseWriter, r *http.Request) error {
		var in I
		if err := reply.Decode(w, r, &in); err != nil {
			return err
		}
		out, err := f(r, in)
		if err != nil {
			return err
		}
		return reply.JSON(w, rt.status, out)
	}
	return rt
}

// repeatable is handleJSON for a function that creates something. A client may
// send the request again with the same Idempotency-Key, and gets the first
// answer.
func repeatable[I, O any](c command.Commands, rt route, f func(r *http.Request, in I) (O, error)) route {
	rt = handleJSON(rt, f)
	rt.params = append(rt.params, keyParam())
	rt.serve = func(w http.ResponseWriter, r *http.Request) error {
		key, err := command.Key(r)
		if err != nil {
			return err
		}
		var in I
		if err := reply.Decode(w, r, &in); err != nil {
			return err
		}
		a, err := c.Once(r, key, "", rt.path+" "+r.PathValue("id"), in, func(ctx context.Context) (any, error) {
			return f(r.WithContext(ctx), in)
		})
		if err != nil {
			return err
		}
		if a.Replayed {
			w.Header().Set(command.ReplayedHeader, "true")
		}
		reply.Raw(w, rt.status, a.Body)
		return nil
	}
	return rt
}

func keyParam() param {
	return param{name: command.KeyHeader, doc: "Makes the request safe to repeat: within 24 hours, the same request with the same key gets the stored first answer, with the header " + command.ReplayedHeader + ": true. 1 to 255 printable ASCII characters. A different request with the same key fails with status 409."}
}

// describedAs returns rt with in as the documented type of its body. The
// handler decodes the body itself.
func describedAs(rt route, in any) route {
	rt.in = in
	return rt
}

// handle returns rt with a handler that answers with f's result as JSON. The
// default method is GET.
func handle[O any](rt route, f func(r *http.Request) (O, error)) route {
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
		return reply.JSON(w, http.StatusOK, out)
	}
	return rt
}

// confine restricts a caller whose credential is bound to a project to the
// sessions of that project. If the path names a session, confine checks its
// project and replaces the path value by our id. Handlers of routes that are
// marked bound use [access.Sessions] instead. All other routes reject such a
// caller.
func (rs *router) confine(r *http.Request, rt *route) error {
	if access.Caller(r.Context()).Project == "" || rt.bound {
		return nil
	}
	if !strings.Contains(rt.path, "/session/{id}") {
		return runnel.Fail(runnel.Forbidden, "this credential is for one project, and this is about all of them")
	}
	id, err := rs.visible.VisibleRef(r.Context(), r.PathValue("id"))
	if err == nil {
		r.SetPathValue("id", id)
	}
	return err
}
