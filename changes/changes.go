// Package changes reads and changes the state of a folder in git: what differs
// from the last commit, what the next commit will contain, commits and reverts.
// It also makes, merges and removes the worktrees of sessions.
//
// In an untrusted folder, git reads no configuration of the repository and runs
// no program that the repository chooses; see [Git].
package changes

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/atonce"
	"github.com/runnel-dev/runnel/internal/filediff"
	"github.com/runnel-dev/runnel/internal/proc"
)

// Bounds of this package.
const (
	maxRuns     = 4                // git processes at a time
	maxOwnRuns  = 2                // of them, for one repository, which can make git wait until its time is over
	readTime    = 10 * time.Second // of a command that only reads
	writeTime   = 30 * time.Second // of a command that writes
	hookTime    = 2 * time.Minute  // of a commit that runs hooks
	checkTime   = 2 * time.Minute  // of a command that may write every file of a work tree
	maxList     = 8 << 20          // bytes that git may print about the files of a folder
	maxFiles    = 2000             // files in a status
	maxDiff     = 2 << 20          // bytes of a diff
	maxText     = 1 << 20          // bytes of an untracked file that are shown
	maxKept     = 64 << 20         // bytes of a reverted file that are kept
	maxMessage  = 64 << 10         // bytes of a commit message
	maxPaths    = 1000             // files that are staged at once
	maxPath     = 4096             // bytes of a path
	maxSaid     = 600              // bytes of what git says in an error
	maxSettings = 1 << 20          // bytes of all settings together
)

// A Git reads and changes folders in git. Its methods may be called
// concurrently; those that change a folder wait for each other.
//
// In an untrusted folder, Git uses a private git directory for each command. It
// has the objects, references and index of the repository by links, and a
// configuration with only those settings that cannot run anything. It has no
// hooks. The repository may therefore change at any time without making git run
// a program. In addition, Git refuses a folder whose configuration has such
// settings ([gitconfig.Find]), as agents do.
//
// In a closed folder, the kernel also restricts git to the folder and its
// repository, if it has Landlock.
type Git struct {
	env []string // of the server

	runs   chan struct{} // limits the processes
	own    atonce.Limit  // limits the processes of one repository
	change sync.Mutex    // held while a folder is changed

	mu     sync.Mutex
	pins   []string           // variables that pin settings of git; nil until they are needed
	checks map[string]checked // by folder

	trustCheck bool // in tests: a check finds nothing, because the folder changed after it
	unconfined bool // in tests: the kernel cannot restrict git to a closed folder
}

// New returns a Git that runs the git in the PATH of env, the environment of
// the server.
func New(env []string) *Git {
	return &Git{env: env, runs: make(chan struct{}, maxRuns), own: atonce.Limit{Most: maxOwnRuns}, checks: make(map[string]checked)}
}

// A Folder is a folder in a repository. Paths in arguments and results are
// relative to it, with slashes.
type Folder struct {
	Dir     string // canonical path
	Trusted bool   // the settings and hooks of the repository may run programs
	Closed  bool   // git may not read other repositories, because somebody who may not see them can write here or reads the result
	Other   string // canonical path of another folder that provides no programs either: the project of a worktree, or the worktree of a project. Default: none
}

// A State tells whether a folder can be examined.
type State string

// The states of a folder.
const (
	StateReady    State = "ready"
	StateNone     State = "none"     // it is in no repository
	StateRefused  State = "refused"  // git might run programs or read another repository
	StateNoGit    State = "no_git"   // git is not installed
	StateTooLarge State = "too_many" // git lists more than can be read
)

// A Status describes a folder in git.
type Status struct {
	State     State         `json:"state" enum:"ready,none,refused,no_git,too_many" doc:"ready: the other fields are set. none: the folder is in no git repository. refused: the repository's settings would make git run programs in this untrusted folder, or git would use a repository elsewhere. no_git: git is not installed on the server's machine. too_many: more files differ than the server reads."`
	Problem   string        `json:"problem,omitempty" doc:"Why the folder cannot be examined, and what to do."`
	Root      string        `json:"root,omitempty" doc:"Absolute path of the folder that the repository is in."`
	Branch    string        `json:"branch,omitempty" doc:"The current branch. Absent if no branch is checked out."`
	Head      string        `json:"head,omitempty" doc:"Id of the last commit. Absent if there is none."`
	Upstream  string        `json:"upstream,omitempty" doc:"The branch that the current branch follows, such as origin/main."`
	Ahead     *int          `json:"ahead,omitempty" doc:"Number of commits that the upstream branch lacks. Absent if the upstream branch is not known."`
	Behind    *int          `json:"behind,omitempty" doc:"Number of commits of the upstream branch that the current branch lacks."`
	Operation string        `json:"operation,omitempty" doc:"The unfinished operation, such as merge or rebase. Until it is finished, the server commits and reverts nothing."`
	Author    string        `json:"author,omitempty" doc:"Name and address with which the server would commit, from the git configuration. Absent if none is configured."`
	Hooks     bool          `json:"hooks" doc:"Whether a commit runs the hooks of the repository. The hooks of an untrusted folder never run."`
	Skipped   bool          `json:"skipped,omitempty" doc:"Whether the repository has hooks that a commit would not run."`
	Files     []ChangedFile `json:"files" doc:"The files of the folder that differ from the last commit, or are new."`
	More      bool          `json:"more,omitempty" doc:"Whether there are further files."`
	Elsewhere int           `json:"elsewhere,omitempty" doc:"Number of staged files outside of the session's folder. While there are any, the server does not commit."`
	Seen      string        `json:"seen" doc:"Stands for what is staged. A commit with this value fails if something else is staged by then."`
}

// An ChangedFile is a file that differs from the last commit.
type ChangedFile struct {
	Path      string           `json:"path" doc:"Path of the file, relative to the session's folder, with slashes."`
	From      string           `json:"from,omitempty" doc:"Earlier path of a file that was moved."`
	Staged    event.ChangeKind `json:"staged,omitempty" enum:"create,update,delete,move" doc:"The change that is staged. Absent if there is none."`
	Unstaged  event.ChangeKind `json:"unstaged,omitempty" enum:"create,update,delete,move" doc:"The change that is not staged. Absent if there is none."`
	Untracked bool             `json:"untracked,omitempty" doc:"Whether git does not know the file yet."`
	Conflict  bool             `json:"conflict,omitempty" doc:"Whether a merge left the file with a conflict."`
	Submodule bool             `json:"submodule,omitempty" doc:"Whether this is another repository within the folder."`

	StagedLines   *LineCounts `json:"stagedLines,omitempty" doc:"Numbers of lines that the staged change adds and removes. Absent for a binary file."`
	UnstagedLines *LineCounts `json:"unstagedLines,omitempty" doc:"Numbers of lines that the unstaged change adds and removes. Absent for a binary file and for an untracked one."`
}

// LineCounts counts changed lines.
type LineCounts struct {
	Added   int `json:"added" doc:"Number of added lines."`
	Removed int `json:"removed" doc:"Number of removed lines."`
}

// A Side is one of the two changes that a file may have.
type Side string

// The sides.
const (
	Staged   Side = "staged"   // from the last commit to the index
	Unstaged Side = "unstaged" // from the index to the file
)

// A Diff is the change of one file.
type Diff struct {
	filediff.File
	Binary  bool
	Cut     bool   // the end is missing
	OldMode string // set if the mode changed
	NewMode string
	Seen    string // stands for the content of the file; see Revert
}

// ready returns the repository of a folder, or an error that says why git
// cannot be used.
func (g *Git) ready(ctx context.Context, f Folder) (*repository, error) {
	r, st, err := g.open(ctx, f)
	if err != nil {
		return nil, err
	}
	if st.State != StateReady {
		return nil, failed(st.Problem)
	}
	return r, nil
}

// writable is ready for an operation that writes objects.
func (g *Git) writable(ctx context.Context, f Folder) (*repository, error) {
	r, err := g.ready(ctx, f)
	if err == nil {
		err = r.checkObjects()
	}
	return r, err
}

// open finds and checks the repository of a folder. If it cannot be used, the
// returned status says why, and the repository is nil.
func (g *Git) open(ctx context.Context, f Folder) (*repository, Status, error) {
	refused := func(state State, problem string) (*repository, Status, error) {
		return nil, Status{State: state, Problem: problem, Files: []ChangedFile{}}, nil
	}
	git, err := g.program(f)
	if err != nil {
		return refused(StateNoGit, "git is not installed on the server's machine, or not in the server's PATH.")
	}
	r, problem := findRepository(f)
	switch {
	case problem != "":
		return refused(StateRefused, problem)
	case r == nil:
		return refused(StateNone, "This folder is in no git repository.")
	}
	r.git = git
	if f.Trusted {
		return r, Status{State: StateReady}, nil
	}
	r.known, problem, err = g.inspect(ctx, r)
	if err == nil && problem == "" {
		problem, err = g.check(ctx, r)
	}
	if err != nil {
		return nil, Status{}, err
	}
	if problem != "" {
		return refused(StateRefused, problem)
	}
	return r, Status{State: StateReady}, nil
}

// environ returns the environment of git in a folder. PATH lacks entries within
// an untrusted folder and f.Other. Git reads commits as they are: an agent can
// write replace references, which give a commit another content.
func (g *Git) environ(f Folder) []string {
	extra := map[string]string{"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":", "GIT_PAGER": "cat", "GIT_NO_REPLACE_OBJECTS": "1"}
	if f.Trusted {
		return proc.Environ(g.env, inherited(), extra)
	}
	extra["GIT_ALLOW_PROTOCOL"], extra["GIT_NO_LAZY_FETCH"] = "none", "1" // a partial clone must not fetch
	extra["PYTHONSAFEPATH"] = "1"                                         // a filter of the user may be a module of Python, which the folder may have, too
	dirs := []string{f.Dir}
	if f.Other != "" {
		dirs = append(dirs, f.Other)
	}
	return proc.FilterPath(proc.Environ(g.env, inherited(), extra), proc.Outside(dirs))
}

// inherited returns the names of the variables that git inherits. The last two
// serve to sign commits.
func inherited() []string { return append(proc.Base(), "SSH_AUTH_SOCK", "GNUPGHOME") }

// program returns the path of git.
func (g *Git) program(f Folder) (string, error) {
	path := ""
	for _, e := range proc.Environ(g.environ(f), []string{"PATH"}, nil) {
		_, path, _ = strings.Cut(e, "=")
	}
	return proc.LookPath("git", path)
}

// failed returns the error for an operation that git or this package refuses.
func failed(why string, cause ...error) *runnel.Error {
	return runnel.Fail(runnel.GitFailed, why, cause...)
}

func outdated(why string) *runnel.Error { return runnel.Fail(runnel.ChangesOutdated, why) }

// local returns the path of a file in the folder for a path from a client.
func local(path string) (string, error) {
	clean := filepath.ToSlash(filepath.Clean(filepath.FromSlash(path)))
	switch {
	case path == "" || len(path) > maxPath || !filepath.IsLocal(filepath.FromSlash(path)) || clean == ".":
		return "", runnel.Fail(runnel.InvalidRequest, "path: must be the path of a file in the session's folder, relative to it")
	case inGitDir(clean):
		return "", runnel.Fail(runnel.InvalidRequest, "path: is in a git directory")
	}
	return clean, nil
}
