package changes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/filediff"
	"github.com/runnel-dev/runnel/internal/nofollow"
)

// maxContext is the largest number of unchanged lines around a difference. It
// stands for the whole file.
const maxContext = 1 << 20

// Diff returns one side of the change of a file, with up to lines unchanged
// lines around each difference.
func (g *Git) Diff(ctx context.Context, f Folder, path string, side Side, lines int) (Diff, error) {
	path, err := local(path)
	if err != nil {
		return Diff{}, err
	}
	r, err := g.ready(ctx, f)
	if err != nil {
		return Diff{}, err
	}
	e, err := g.entry(ctx, r, path)
	if err != nil {
		return Diff{}, err
	}
	seen, err := seen(f.Dir, path)
	if err != nil {
		return Diff{}, err
	}
	d := Diff{Seen: seen}
	d.Path, d.Kind, d.Hunks = path, e.Staged, []event.Hunk{}
	if side == Unstaged {
		d.Kind = e.Unstaged
	}
	if d.Kind == "" {
		return Diff{}, outdated("The file has no change of this kind any more: " + path + ". Load the list of changes again.")
	}
	if side == Unstaged && e.Untracked {
		return d, d.untracked(f.Dir)
	}
	if side == Staged && e.From != "" {
		d.Path, d.MovedTo = e.From, path
	}
	return d, g.diff(ctx, r, e, side, lines, &d)
}

// entry returns the state of one file.
func (g *Git) entry(ctx context.Context, r *repository, path string) (ChangedFile, error) {
	list, err := g.list(ctx, r) // a pathspec would hide that a file was moved
	if errors.Is(err, errCut) {
		return ChangedFile{}, failed("Too many files differ from the last commit. Use git in a terminal.")
	}
	if err != nil {
		return ChangedFile{}, err
	}
	for _, e := range list.files {
		if e.Path == path {
			return e, nil
		}
	}
	return ChangedFile{}, outdated("The file does not differ from the last commit any more: " + path + ". Load the list of changes again.")
}

// diffArgs returns the arguments of a diff that runs no program and does not
// look into submodules.
func (g *Git) diffArgs(r *repository, side Side) []string {
	args := []string{"diff", "--no-ext-diff", "--no-textconv", "--no-color", g.submodules(r), "--submodule=short", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/"}
	if side == Staged {
		args = append(args, "--cached")
	}
	return args
}

// submodules returns the option that says which changes of submodules git
// reports: which commit is checked out. In a closed folder a submodule can lead
// to another repository, whose commit nobody may see there. If the kernel cannot
// prevent that, git reports no changes of submodules.
func (g *Git) submodules(r *repository) string {
	if r.folder.Closed && !r.folder.Trusted && !g.canConfine() {
		return "--ignore-submodules=all"
	}
	return "--ignore-submodules=dirty"
}

// diff reads the diff of a file that git knows.
func (g *Git) diff(ctx context.Context, r *repository, e ChangedFile, side Side, lines int, d *Diff) error {
	args := append(g.diffArgs(r, side), "-U"+strconv.Itoa(min(max(lines, 0), maxContext)))
	if e.Conflict {
		args = append(args, "HEAD") // otherwise git compares with all sides of the merge
	}
	args = append(args, "--", r.path(e.Path))
	if e.From != "" && side == Staged {
		args = append(args, r.path(e.From))
	}
	out, err := g.read(ctx, r, maxDiff, args...)
	if errors.Is(err, errCut) {
		d.Cut, err = true, nil
		out = out[:bytes.LastIndexByte(out, '\n')+1]
	}
	if err != nil {
		return err
	}
	d.parse(string(out))
	return nil
}

// hunkHead matches the first line of a hunk.
var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@`)

// parse reads a diff of one file as git prints it. Lines of a diff may contain
// carriage returns, so only newlines separate them.
func (d *Diff) parse(out string) {
	var open *event.Hunk
	last := byte(0) // mark of the last line
	for line := range strings.SplitSeq(strings.TrimSuffix(out, "\n"), "\n") {
		if m := hunkHead.FindStringSubmatch(line); m != nil {
			from, _ := strconv.Atoi(m[1])
			to, _ := strconv.Atoi(m[2])
			d.Hunks = append(d.Hunks, event.Hunk{OldStart: from, NewStart: to, Lines: []string{}})
			open = &d.Hunks[len(d.Hunks)-1]
			continue
		}
		if open == nil {
			d.header(line)
			continue
		}
		if line == "" {
			continue
		}
		switch line[0] {
		case '+':
			open.NewLines++
			d.Added++
		case '-':
			open.OldLines++
			d.Removed++
		case ' ':
			open.OldLines++
			open.NewLines++
		case '\\': // "\ No newline at end of file"
			switch last {
			case '-':
				d.Newline = filediff.NewlineAdded
			case '+':
				if d.Newline == filediff.NewlineAdded {
					d.Newline = "" // neither side has one
				} else {
					d.Newline = filediff.NewlineRemoved
				}
			}
			continue
		default:
			continue
		}
		last = line[0]
		open.Lines = append(open.Lines, line)
	}
	if d.Kind == event.ChangeCreate || d.Kind == event.ChangeDelete {
		d.Newline = ""
	}
}

// header reads a line before the first hunk.
func (d *Diff) header(line string) {
	switch {
	case strings.HasPrefix(line, "Binary files "):
		d.Binary = true
	case strings.HasPrefix(line, "old mode "):
		d.OldMode = strings.TrimPrefix(line, "old mode ")
	case strings.HasPrefix(line, "new mode "):
		d.NewMode = strings.TrimPrefix(line, "new mode ")
	}
}

// untracked reads a file that git does not know yet.
func (d *Diff) untracked(dir string) error {
	root, err := nofollow.RootInPlace(dir)
	if err != nil {
		return runnel.Fail(runnel.WorkingRootInaccessible, "the session's folder cannot be opened", err)
	}
	defer root.Close()
	file, err := nofollow.Open(root, filepath.FromSlash(d.Path))
	if errors.Is(err, nofollow.ErrLink) || errors.Is(err, nofollow.ErrNotRegular) {
		d.Binary = true
		return nil
	}
	if err != nil {
		return outdated("The file cannot be read any more: " + d.Path + ". Load the list of changes again.")
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxText+1))
	if err != nil {
		return failed("The file cannot be read: "+d.Path+".", err)
	}
	if len(b) > maxText {
		d.Cut = true
		b = b[:bytes.LastIndexByte(b[:maxText], '\n')+1]
	}
	const probe = 8000 // git's own measure of a binary file
	if bytes.IndexByte(b[:min(len(b), probe)], 0) >= 0 {
		d.Binary = true
		return nil
	}
	d.Hunks = filediff.Hunks("", string(b), 0)
	for _, h := range d.Hunks {
		d.Added += h.NewLines
	}
	return nil
}

// absentFile is what seen returns for a file that does not exist.
const absentFile = "absent"

// seen stands for the content of a file in a folder, which may be absent.
func seen(dir, path string) (string, error) {
	root, err := nofollow.RootInPlace(dir)
	if err != nil {
		return "", runnel.Fail(runnel.WorkingRootInaccessible, "the session's folder cannot be opened", err)
	}
	defer root.Close()
	name := filepath.FromSlash(path)
	sum := sha256.New()
	file, err := nofollow.Open(root, name)
	switch {
	case err == nil:
		defer file.Close()
		st, err := file.Stat()
		if err != nil {
			return "", failed("The file cannot be read: "+path+".", err)
		}
		if st.Size() > maxKept {
			fmt.Fprintf(sum, "%d %s", st.Size(), st.ModTime())
		} else if _, err := io.Copy(sum, io.LimitReader(file, maxKept+1)); err != nil {
			return "", failed("The file cannot be read: "+path+".", err)
		}
		fmt.Fprintf(sum, "\x00%t", st.Mode()&0o111 != 0)
	case replacedFolder(dir, path) != "":
		return absentFile, nil // as for git
	default:
		st, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrNotExist) {
			return absentFile, nil
		}
		if err != nil {
			return "", failed("The file cannot be read: "+path+".", err)
		}
		to, _ := root.Readlink(name)
		fmt.Fprintf(sum, "%o %s", st.Mode(), to)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// paths returns the paths in the repository of files in the folder.
func (r *repository) paths(locals []string) []string {
	out := make([]string, len(locals))
	for i, p := range locals {
		out[i] = r.path(p)
	}
	return slices.Compact(out)
}
