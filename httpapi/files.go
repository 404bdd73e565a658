package httpapi

import (
	"errors"
	"math"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/files"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/atonce"
)

// Numbers of completed paths.
const (
	completedDefault = 50
	completedMax     = 200
)

// fileRoutes holds the handlers that show files of projects and directories.
type fileRoutes struct {
	gw     *gateway.Gateway
	files  gateway.Files
	limits Limits
	refuse func(setting string, limit int64, what string) error // counts that a limit was reached, and returns the error for it
	asked  budget                                               // requests, by credential
	atOnce atonce.Limit                                         // requests, by credential
}

func (f *fileRoutes) routes() []route {
	completed := []param{
		{name: "query", doc: "Characters that occur in the path in this order, at most 200; each word must match. Case matters if a letter is a capital. Hidden files match only if an element of the query begins with a dot. Default: the files nearest to the top."},
		{name: "limit", doc: "Maximum number of paths, at most 200. Default: 50."},
	}
	const completes = "Returns the paths that match best, ranked as fzf does. Leaves out files that git ignores, files that usually hold secrets, and links. Searches for at most 200 ms; partial reports that the search continues with the next request."
	named := param{name: "path", required: true, doc: "Path from the project's directory, with / between its elements."}
	return inTurn(&f.atOnce, []route{
		handle(route{path: "/api/session/{id}/files", scope: auth.Read, name: "completeFiles",
			summary: "Complete a path in a session's project", about: completes, params: completed}, limited(f, f.complete)),
		handle(route{path: "/api/files", scope: auth.Send, bound: true, name: "completeProjectFiles",
			summary: "Complete a path in a directory", about: "The directory need not have a session yet. " + completes,
			params: append([]param{{name: "projectDir", required: true, doc: "Absolute path of a directory in which a session could start."}}, completed...),
			fails:  []runnel.Code{runnel.WorkingRootInaccessible, runnel.WorkingRootConflict}, refused: []int{http.StatusNotFound}}, limited(f, f.completeIn)),
		handle(route{path: "/api/session/{id}/folder", scope: auth.Read, name: "listFolder",
			summary: "List a folder of a session's project", about: "Does not follow links. Leaves out files that usually hold secrets.",
			params:  []param{{name: "path", doc: "Path of the folder from the project's directory, with / between its elements. Default: the project's directory."}},
			refused: []int{http.StatusNotFound}}, limited(f, f.list)),
		handle(route{path: "/api/session/{id}/file", scope: auth.Read, name: "readFile",
			summary: "Read a file of a session's project", about: "Returns the text of a text file, and describes any other file. Does not follow links, and reads no file that has a further name (a hard link), usually holds secrets or has more than 10 MiB.",
			params: []param{named,
				{name: "from", number: true, doc: "Number of the first line. Default: 1."},
				{name: "to", number: true, doc: "Number of the last line. Default: the last line of the file. The response has at most 5,000 lines and 1 MiB."},
			}, fails: []runnel.Code{runnel.PayloadTooLarge}, refused: []int{http.StatusNotFound}}, limited(f, f.read)),
		{method: http.MethodGet, path: "/api/session/{id}/image", scope: auth.Read, name: "readImage",
			summary: "Get an image of a session's project", about: "Returns a PNG, JPEG, GIF or WebP image, judged by its content, for saving or for a page of your own. Other files are rejected, SVG included. The conditions of readFile apply.",
			params: []param{named}, status: http.StatusOK, media: imageTypes(), fails: []runnel.Code{runnel.PayloadTooLarge}, refused: []int{http.StatusNotFound}, serve: f.image},
		f.pictureRoute(),
		handle(route{path: "/api/folders", scope: auth.Send, name: "listFolders",
			summary: "List directories of the server's machine", about: "For the choice of a project. Returns names of directories only; leaves out links, directories of credentials and the server's own data.",
			params:  []param{{name: "path", doc: "Absolute path, or a path that begins with ~/. With a / at its end, this directory is listed; otherwise the one above, and its directories are matched with the last element. Default: the home directory and git repositories near it."}},
			refused: []int{http.StatusNotFound}}, limited(f, f.folders)),
		handleJSON(route{path: "/api/folders", scope: auth.Send, name: "createFolder", status: http.StatusCreated,
			summary: "Create a directory for a session", about: "Creates one directory in a directory that exists. The audit log gets an entry before.",
			refused: []int{http.StatusNotFound}}, f.createFolder),
	})
}

func imageTypes() []string { return []string{"image/png", "image/jpeg", "image/gif", "image/webp"} }

// limited returns a handler that counts its requests, and fails if the caller
// has sent too many.
func limited[O any](f *fileRoutes, h func(*http.Request) (O, error)) func(*http.Request) (O, error) {
	return func(r *http.Request) (out O, err error) {
		if err := f.count(r); err != nil {
			return out, err
		}
		out, err = h(r)
		return out, fileError(err)
	}
}

func (f *fileRoutes) count(r *http.Request) error {
	if f.asked.spend(access.Caller(r.Context()).ID, 1, int64(f.limits.FileRequests), time.Minute) {
		return nil
	}
	return f.refuse("max-file-requests-per-credential", int64(f.limits.FileRequests), "this credential has asked for too many files or changes in a minute; wait a little")
}

func (f *fileRoutes) complete(r *http.Request) (files.Completion, error) {
	p, err := f.files.OfSession(r.Context(), r.PathValue("id"))
	if err != nil {
		return files.Completion{}, err
	}
	return completed(r, p)
}

func (f *fileRoutes) completeIn(r *http.Request) (files.Completion, error) {
	dir, err := access.Home(r.Context(), r.URL.Query().Get("projectDir"))
	if err != nil {
		return files.Completion{}, err
	}
	p, err := f.files.OfFolder(dir)
	if err != nil {
		return files.Completion{}, err
	}
	return completed(r, p)
}

func completed(r *http.Request, p files.Project) (files.Completion, error) {
	limit, err := reply.Number(r, "limit", completedDefault)
	if err != nil {
		return files.Completion{}, err
	}
	return p.Complete(r.Context(), r.URL.Query().Get("query"), int(min(limit, completedMax)))
}

func (f *fileRoutes) list(r *http.Request) (files.Listing, error) {
	p, err := f.files.OfSession(r.Context(), r.PathValue("id"))
	if err != nil {
		return files.Listing{}, err
	}
	return p.List(r.URL.Query().Get("path"))
}

func (f *fileRoutes) read(r *http.Request) (files.File, error) {
	var lines [2]int
	for i, name := range []string{"from", "to"} {
		n, err := reply.Number(r, name, 0)
		if err != nil {
			return files.File{}, err
		}
		lines[i] = int(min(n, math.MaxInt32))
	}
	p, err := f.files.OfSession(r.Context(), r.PathValue("id"))
	if err != nil {
		return files.File{}, err
	}
	return p.Read(r.Context(), r.URL.Query().Get("path"), lines[0], lines[1])
}

// image answers with an image that no browser interprets as anything else. The
// page fetches it with its key, and shows it from memory.
func (f *fileRoutes) image(w http.ResponseWriter, r *http.Request) error {
	if err := f.count(r); err != nil {
		return err
	}
	p, err := f.files.OfSession(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	img, err := p.Image(r.Context(), r.URL.Query().Get("path"))
	if err != nil {
		return fileError(err)
	}
	writeImage(w, img.Data, img.MediaType, "attachment", path.Base(r.URL.Query().Get("path")))
	return nil
}

func (f *fileRoutes) folders(r *http.Request) (files.Folders, error) {
	return f.files.Folders(r.Context(), r.URL.Query().Get("path"))
}

// newFolder is the body of createFolder.
type newFolder struct {
	Path string `json:"path" doc:"Absolute path of the directory in which the new one is created, or a path that begins with ~/."`
	Name string `json:"name" doc:"Name of the new directory, at most 255 bytes: one element of a path, not hidden, and none that usually holds secrets."`
}

func (f *fileRoutes) createFolder(r *http.Request, in newFolder) (files.Folder, error) {
	return limited(f, func(r *http.Request) (files.Folder, error) {
		return f.files.CreateFolder(r.Context(), in.Path, in.Name, func(path string) error {
			return access.Record(r.Context(), audit.Record{Kind: audit.FolderCreated, What: path})
		})
	})(r)
}

// fileError converts an error of package files to the one that clients see.
func fileError(err error) error {
	is := func(list ...error) bool {
		return slices.ContainsFunc(list, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case is(files.ErrNotFound, files.ErrLink, files.ErrNoFile, files.ErrNoFolder, files.ErrGone):
		return reply.NewError(http.StatusNotFound, "path: "+err.Error())
	case is(files.ErrSecret, files.ErrLinked):
		return runnel.Fail(runnel.Forbidden, "path: "+err.Error())
	case is(files.ErrTooLarge):
		return runnel.Fail(runnel.PayloadTooLarge, "path: "+err.Error())
	case is(files.ErrBadPath, files.ErrNoImage, files.ErrNoHome):
		return reply.Invalid("path: " + err.Error())
	case is(files.ErrBadName, files.ErrExists):
		return reply.Invalid("name: " + err.Error())
	case is(files.ErrNotMade):
		return runnel.Fail(runnel.Forbidden, "path: "+err.Error())
	case is(files.ErrBadQuery):
		return reply.Invalid("query: " + err.Error())
	}
	return err
}
