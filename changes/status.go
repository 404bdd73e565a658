package changes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// Status returns the state of a folder. It does not fail if the folder is in no
// repository or if git cannot be used there; see [Status.State].
func (g *Git) Status(ctx context.Context, f Folder) (Status, error) {
	r, st, err := g.open(ctx, f)
	if err != nil || st.State != StateReady {
		return st, err
	}
	return g.status(ctx, r)
}

func (g *Git) status(ctx context.Context, r *repository) (Status, error) {
	st := Status{State: StateReady, Root: r.root, Operation: r.operation(), Files: []ChangedFile{}}
	list, err := g.list(ctx, r)
	if errors.Is(err, errCut) {
		st.State, st.Problem = StateTooLarge, "Too many files differ from the last commit. Add generated files to .gitignore, or use git in a terminal."
		return st, nil
	}
	if err != nil {
		return st, err
	}
	list.fill(&st)
	if st.Elsewhere, err = g.elsewhere(ctx, r); err != nil {
		return st, err
	}
	for _, side := range []Side{Staged, Unstaged} {
		if err := g.count(ctx, r, side, st.Files); err != nil {
			return st, err
		}
	}
	st.Skipped = r.hasHooks() && !r.folder.Trusted
	st.Hooks = r.folder.Trusted
	st.Author, err = g.author(ctx, r)
	return st, err
}

// A listing is what git reports about the files of a folder.
type listing struct {
	head, branch, upstream string
	ahead, behind          *int
	files                  []ChangedFile
	staged                 []string // what stands for each staged file
	nested                 []string // new repositories within the folder
	more                   bool
}

// list asks git for the files of the folder that differ.
func (g *Git) list(ctx context.Context, r *repository) (listing, error) {
	args := []string{"status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", g.submodules(r), "--find-renames"}
	if r.prefix != "" {
		args = append(args, "--", r.prefix)
	}
	out, err := g.read(ctx, r, maxList, args...)
	if err != nil {
		return listing{}, err
	}
	return parseStatus(r, string(out)), nil
}

// parseStatus reads the output of git status in the format porcelain v2.
func parseStatus(r *repository, out string) (l listing) {
	records := strings.Split(out, "\x00")
	for i := 0; i < len(records); i++ {
		kind, rest, _ := strings.Cut(records[i], " ")
		switch kind {
		case "#":
			l.header(rest)
		case "1":
			if f := strings.SplitN(rest, " ", 8); len(f) == 8 {
				l.add(r, f[7], "", f)
			}
		case "2":
			if f := strings.SplitN(rest, " ", 9); len(f) == 9 && i+1 < len(records) {
				i++
				l.add(r, f[8], records[i], f)
			}
		case "u":
			if f := strings.SplitN(rest, " ", 10); len(f) == 10 {
				l.append(r, f[9], ChangedFile{Conflict: true, Unstaged: event.ChangeUpdate})
			}
		case "?":
			if strings.HasSuffix(rest, "/") { // a repository within the folder
				l.nested = append(l.nested, rest)
			} else {
				l.append(r, rest, ChangedFile{Untracked: true, Unstaged: event.ChangeCreate})
			}
		}
	}
	return l
}

func (l *listing) header(line string) {
	name, value, _ := strings.Cut(line, " ")
	switch name {
	case "branch.oid":
		if value != "(initial)" {
			l.head = value
		}
	case "branch.head":
		if value != "(detached)" {
			l.branch = value
		}
	case "branch.upstream":
		l.upstream = value
	case "branch.ab":
		var n [2]int
		for i, f := range strings.Fields(value) {
			if i < len(n) {
				n[i], _ = strconv.Atoi(strings.TrimLeft(f, "+-"))
			}
		}
		l.ahead, l.behind = &n[0], &n[1]
	}
}

// add adds a changed file. fields are XY, the submodule state, the modes in
// HEAD, index and work tree, and the ids in HEAD and index.
func (l *listing) add(r *repository, path, from string, fields []string) {
	xy := fields[0]
	if len(xy) != 2 {
		return
	}
	e := ChangedFile{Staged: kindOf(xy[0]), Unstaged: kindOf(xy[1]), Submodule: strings.HasPrefix(fields[1], "S")}
	if from != "" {
		if local, ok := r.local(from); ok {
			e.From = local
		}
	}
	if e.Staged != "" {
		l.staged = append(l.staged, path+"\x00"+from+"\x00"+fields[3]+"\x00"+fields[6])
	}
	l.append(r, path, e)
}

func (l *listing) append(r *repository, path string, e ChangedFile) {
	local, ok := r.local(path)
	if !ok {
		return
	}
	if len(l.files) == maxFiles {
		l.more = true
		return
	}
	e.Path = local
	l.files = append(l.files, e)
}

// kindOf returns the kind of change for a letter of git, or "" for none.
func kindOf(letter byte) event.ChangeKind {
	switch letter {
	case '.':
		return ""
	case 'A':
		return event.ChangeCreate
	case 'D':
		return event.ChangeDelete
	case 'R':
		return event.ChangeMove
	case 'C':
		return event.ChangeCreate
	}
	return event.ChangeUpdate
}

func (l *listing) fill(st *Status) {
	st.Head, st.Branch, st.Upstream, st.Ahead, st.Behind = l.head, l.branch, l.upstream, l.ahead, l.behind
	st.More, st.Seen = l.more, l.seen()
	if l.files != nil {
		st.Files = l.files
	}
}

// seen stands for the last commit and what is staged.
func (l *listing) seen() string {
	sum := sha256.New()
	sum.Write([]byte(l.head + "\n" + l.branch + "\n"))
	for _, s := range l.staged {
		sum.Write([]byte(s + "\n"))
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// elsewhere returns the number of staged files outside of the folder.
func (g *Git) elsewhere(ctx context.Context, r *repository) (int, error) {
	if r.prefix == "" {
		return 0, nil
	}
	out, err := g.read(ctx, r, maxList, "diff", "--cached", "--no-renames", "--name-only", "-z", "--no-ext-diff", "--ignore-submodules=dirty")
	if err != nil && !errors.Is(err, errCut) {
		return 0, err
	}
	n := 0
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if _, inside := r.local(path); path != "" && !inside {
			n++
		}
	}
	return n, nil
}

// count sets the numbers of changed lines of files.
func (g *Git) count(ctx context.Context, r *repository, side Side, files []ChangedFile) error {
	at := make(map[string]*LineCounts)
	for i := range files {
		e := &files[i]
		lines := new(LineCounts)
		switch {
		case side == Staged && e.Staged != "":
			e.StagedLines = lines
		case side == Unstaged && e.Unstaged != "" && !e.Untracked && !e.Conflict:
			e.UnstagedLines = lines
		default:
			continue
		}
		at[r.path(e.Path)] = lines
	}
	if len(at) == 0 {
		return nil
	}
	args := append(g.diffArgs(r, side), "--numstat", "-z")
	if r.prefix != "" {
		args = append(args, "--", r.prefix)
	}
	out, err := g.read(ctx, r, maxList, args...)
	if err != nil && !errors.Is(err, errCut) {
		return err
	}
	known := numstat(string(out))
	for i := range files {
		e := &files[i]
		n, ok := known[r.path(e.Path)]
		switch {
		case side == Staged && e.StagedLines != nil && !ok:
			e.StagedLines = nil
		case side == Unstaged && e.UnstagedLines != nil && !ok:
			e.UnstagedLines = nil
		case ok && at[r.path(e.Path)] != nil:
			*at[r.path(e.Path)] = n
		}
	}
	return nil
}

// numstat reads the output of git diff --numstat -z. It leaves out binary
// files.
func numstat(out string) map[string]LineCounts {
	known := make(map[string]LineCounts)
	records := strings.Split(out, "\x00")
	for i := 0; i < len(records); i++ {
		f := strings.SplitN(records[i], "\t", 3)
		if len(f) != 3 {
			continue
		}
		path := f[2]
		if path == "" && i+2 < len(records) { // a file that was moved: both paths follow
			path = records[i+2]
			i += 2
		}
		added, err1 := strconv.Atoi(f[0])
		removed, err2 := strconv.Atoi(f[1])
		if err1 == nil && err2 == nil {
			known[path] = LineCounts{added, removed}
		}
	}
	return known
}

// author returns the identity with which a commit would be made, or "".
func (g *Git) author(ctx context.Context, r *repository) (string, error) {
	settings, err := g.settings(ctx, r)
	if err != nil {
		return "", err
	}
	var name, email [2]string // author.* overrides user.*
	for _, s := range settings {
		switch s.key {
		case "user.name":
			name[0] = s.value
		case "user.email":
			email[0] = s.value
		case "author.name":
			name[1] = s.value
		case "author.email":
			email[1] = s.value
		}
	}
	last := func(v [2]string) string {
		if v[1] != "" {
			return v[1]
		}
		return v[0]
	}
	if last(name) == "" || last(email) == "" {
		return "", nil
	}
	return last(name) + " <" + last(email) + ">", nil
}
