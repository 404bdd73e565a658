package gateway

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/files"
)

// Files shows the files of the projects of a Gateway to people.
type Files struct{ g *Gateway }

// FilesOf returns the files of the projects of g.
func FilesOf(g *Gateway) Files { return Files{g} }

// OfSession returns the project of a session.
func (f Files) OfSession(ctx context.Context, ref string) (files.Project, error) {
	st, err := f.g.Status(ctx, ref)
	if err != nil {
		return files.Project{}, err
	}
	if err := f.g.opener.projects.recheckStatus(st); err != nil {
		return files.Project{}, err
	}
	return f.g.files.Project(st.WorkDir()), nil
}

// OfFolder returns the project in a directory in which a session could start.
func (f Files) OfFolder(dir string) (files.Project, error) {
	real, err := f.g.opener.projects.check(dir)
	if err != nil {
		return files.Project{}, err
	}
	return f.g.files.Project(real), nil
}

// Folders lists directories in which a session could work; see
// [files.Service.Folders]. If path is empty, it also suggests one.
func (f Files) Folders(ctx context.Context, path string) (files.Folders, error) {
	out, err := f.g.files.Folders(ctx, path)
	if err == nil && path == "" {
		out.Suggested = f.suggested(out.Repositories)
	}
	return out, err
}

// CreateFolder creates a directory in which a session can work; see
// [files.Service.Create].
func (f Files) CreateFolder(ctx context.Context, parent, name string, record func(path string) error) (files.Folder, error) {
	return f.g.files.Create(ctx, parent, name, func(path string) error {
		if f.isProtected(path) {
			return files.ErrGone
		}
		return record(path)
	})
}

// isProtected reports whether a path is one of Config.Protected, or lies in one.
// None of them need exist.
func (f Files) isProtected(path string) bool {
	real := func(path string) string { return filepath.Join(canonical(filepath.Dir(path)), filepath.Base(path)) }
	return slices.ContainsFunc(f.g.cfg.Protected, func(p string) bool { return within(real(path), real(p)) })
}

// suggested returns the directory for a first session, or "" if none is likely.
func (f Files) suggested(repositories []files.Folder) string {
	if dir, err := os.Getwd(); err == nil {
		if real, err := f.g.opener.projects.check(dir); err == nil {
			return real
		}
	}
	for _, r := range repositories {
		if _, err := f.g.opener.projects.check(r.Path); err == nil {
			return r.Path
		}
	}
	return ""
}

// newFiles returns the service that reads the files of projects. It removes the
// secrets that are also removed from events.
func newFiles(cfg Config, projects projects) *files.Service {
	c := files.Config{DataDir: cfg.DataDir, Refuse: func(dir string) string {
		var refused *runnel.Error
		if _, err := projects.check(dir); errors.As(err, &refused) {
			return refused.Message
		}
		return ""
	}}
	if cfg.Filter != nil {
		c.Redact = redactor(cfg)
	}
	return files.New(c)
}
