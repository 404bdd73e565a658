package changes

import (
	"context"
	"errors"
	"strings"

	"github.com/runnel-dev/runnel"
)

// A Choice is a file with what the client has seen of it.
type Choice struct {
	Path string
	Seen string // [Diff.Seen]. Default: the file is not compared
}

// Stage adds the files to what the next commit will contain, or removes them
// from it if staged is false. It fails with CHANGES_OUTDATED if a file is not as
// the client has seen it.
func (g *Git) Stage(ctx context.Context, f Folder, files []Choice, staged bool) error {
	if len(files) == 0 || len(files) > maxPaths {
		return runnel.Fail(runnel.InvalidRequest, "files: must have 1 to 1000 elements")
	}
	for i := range files {
		path, err := local(files[i].Path)
		if err != nil {
			return err
		}
		files[i].Path = path
	}
	g.change.Lock()
	defer g.change.Unlock()
	r, err := g.writable(ctx, f)
	if err != nil {
		return err
	}
	for _, c := range files {
		if c.Seen == "" {
			continue
		}
		if now, err := seen(f.Dir, c.Path); err != nil {
			return err
		} else if now != c.Seen {
			return outdated("The file has changed since you looked at it: " + c.Path + ". Look at it again.")
		}
	}
	list, err := g.list(ctx, r)
	if err != nil && !errors.Is(err, errCut) {
		return err
	}
	from := make(map[string]string) // earlier paths of staged moves
	for _, e := range list.files {
		if e.From != "" {
			from[e.Path] = e.From
		}
	}
	var paths []string
	for _, c := range files {
		paths = append(paths, c.Path)
		if old := from[c.Path]; old != "" && !staged {
			paths = append(paths, old)
		}
	}
	// These commands do not look into submodules. git add and git rm would run
	// git with the settings of the submodule itself.
	if staged {
		paths = withoutReplaced(f.Dir, paths)
	}
	c := command{stdin: []byte(strings.Join(r.paths(paths), "\x00") + "\x00"), time: writeTime, most: maxList}
	switch {
	case staged:
		c.args = []string{"update-index", "--add", "--remove", "--replace", "-z", "--stdin"}
	case list.head == "":
		c.args = []string{"update-index", "--force-remove", "-z", "--stdin"}
	default:
		c.args, c.stdin = append([]string{"reset", "--quiet", "HEAD", "--"}, r.paths(paths)...), nil
	}
	_, err = g.within(ctx, r, c)
	return err
}

// A Committed is a commit that was made.
type Committed struct {
	Commit  string `json:"commit" doc:"Id of the commit."`
	Branch  string `json:"branch" doc:"The branch to which the commit was added."`
	Hooks   bool   `json:"hooks" doc:"Whether the hooks of the repository could run."`
	Differs bool   `json:"differs,omitempty" doc:"Whether the commit contains something else than what was staged. A hook changed it, or another program staged something meanwhile."`
}

// Commit commits what is staged, with the author from the git configuration.
// seen is [Status.Seen]; Commit fails with CHANGES_OUTDATED if something else is
// staged by now. Hooks run in a trusted folder only.
func (g *Git) Commit(ctx context.Context, f Folder, message, seen string) (Committed, error) {
	message = strings.TrimSpace(message)
	if message == "" {
		return Committed{}, runnel.Fail(runnel.InvalidRequest, "message: is missing; say what the commit does")
	}
	if err := checkMessage(message); err != nil {
		return Committed{}, err
	}
	if seen == "" {
		return Committed{}, runnel.Fail(runnel.InvalidRequest, "seen: is missing; send the value from the status that you looked at")
	}
	g.change.Lock()
	defer g.change.Unlock()
	r, err := g.writable(ctx, f)
	if err != nil {
		return Committed{}, err
	}
	list, err := g.committable(ctx, r, seen)
	if err != nil {
		return Committed{}, err
	}
	return g.commit(ctx, r, list.branch, message)
}

// commit commits what is staged to the branch that is checked out.
func (g *Git) commit(ctx context.Context, r *repository, branch, message string) (Committed, error) {
	tree, err := g.line(ctx, r, "write-tree")
	if err != nil {
		return Committed{}, err
	}
	c := command{args: []string{"commit", "--quiet", "--cleanup=whitespace", "--file=-"}, stdin: []byte(message + "\n"), time: writeTime, most: maxList, signs: true}
	if r.folder.Trusted {
		c.hooks, c.time = true, hookTime
	}
	if _, err := g.within(ctx, r, c); err != nil {
		return Committed{}, err
	}
	g.mu.Lock()
	delete(g.checks, r.folder.Dir)
	g.mu.Unlock()
	made, err := g.line(ctx, r, "rev-parse", "--verify", "HEAD")
	if err != nil {
		return Committed{}, err
	}
	has, err := g.line(ctx, r, "rev-parse", "--verify", made+"^{tree}")
	return Committed{Commit: made, Branch: branch, Hooks: r.folder.Trusted, Differs: has != tree}, err
}

// checkMessage rejects a commit message that git does not take.
func checkMessage(message string) error {
	if len(message) > maxMessage || strings.ContainsRune(message, 0) {
		return runnel.Fail(runnel.InvalidRequest, "message: may have at most 65536 bytes, and no NUL")
	}
	return nil
}

// committable returns the listing of a folder in which a commit is possible.
func (g *Git) committable(ctx context.Context, r *repository, seen string) (listing, error) {
	if op := r.operation(); op != "" {
		return listing{}, failed("A " + op + " is not finished. Finish or abort it in a terminal, then commit.")
	}
	list, err := g.list(ctx, r)
	if errors.Is(err, errCut) {
		return list, failed("Too many files differ from the last commit. Commit in a terminal.")
	}
	if err != nil {
		return list, err
	}
	switch {
	case list.branch == "":
		return list, failed("No branch is checked out. Create one in a terminal, then commit.")
	case list.seen() != seen:
		return list, outdated("What is staged has changed since you looked at it. Look at it again, then commit.")
	case len(list.staged) == 0:
		return list, failed("Nothing is staged. Stage what the commit should contain.")
	}
	if n, err := g.elsewhere(ctx, r); err != nil {
		return list, err
	} else if n > 0 {
		return list, failed("Files outside of the session's folder are staged, too. Commit in a terminal, or unstage them there.")
	}
	return list, g.mayCommit(ctx, r)
}

// mayCommit fails if the author of a commit is not known, or if git would write
// the branch elsewhere.
func (g *Git) mayCommit(ctx context.Context, r *repository) error {
	author, err := g.author(ctx, r)
	if err != nil {
		return err
	}
	if author == "" {
		return failed("Git does not know your name and address. Run git config --global user.name \"Your Name\" and git config --global user.email you@example.com, then commit.")
	}
	if r.folder.Trusted {
		return nil
	}
	return r.checkBranch()
}

// line runs a git command that prints one line, and returns the line.
func (g *Git) line(ctx context.Context, r *repository, args ...string) (string, error) {
	out, err := g.within(ctx, r, command{args: args, time: writeTime, most: maxPath})
	return strings.TrimSpace(string(out)), err
}
