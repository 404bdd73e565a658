package changes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// checkCommitted fails with CHANGES_OUTDATED unless the commit head adds to the
// worktree's last commit only what the person has seen. st is the state that the
// person has seen. A process that an agent has left behind can change files, what
// is staged and HEAD at any time; it cannot change a commit.
//
// In a trusted folder, hooks and filters may change what is committed, so
// checkCommitted compares no files there.
func (g *Git) checkCommitted(ctx context.Context, wr *repository, st WorktreeStatus, head string) error {
	if head == st.Head || st.Head == "" { // git merges no history that begins elsewhere
		return nil
	}
	parents, err := g.line(ctx, wr, exact("rev-list", "--parents", "--max-count=1", head)...)
	if err != nil {
		return err
	}
	if parents != head+" "+st.Head {
		return outdatedWorktree("merge")
	}
	if wr.folder.Trusted {
		return nil
	}
	out, err := g.read(ctx, wr, maxList, exact("diff-tree", "-r", "--raw", "--no-renames", "--no-abbrev", "-z", st.Head, head)...)
	if errors.Is(err, errCut) {
		return failed("The worktree changes too many files to check them. Ask the agent to commit.")
	}
	if err != nil {
		return err
	}
	var made []committedFile
	records := strings.Split(string(out), "\x00")
	for i := 0; i+1 < len(records); i += 2 {
		f := strings.Fields(records[i]) // the modes and ids before and after, and a letter
		state, known := st.states[records[i+1]]
		if len(f) != 5 || !known || f[4] == "D" && state != absentFile {
			return outdatedWorktree("merge")
		}
		if f[4] != "D" && f[1] != submoduleMode && isContent(state) {
			made = append(made, committedFile{mode: f[1], before: f[2], id: f[3], state: state})
		}
	}
	if len(made) == 0 {
		return nil
	}
	return g.checkContents(ctx, wr, made)
}

// exact returns the arguments of a git that does not use the commit graph. This
// file among the objects, which an agent can write, gives a commit other parents
// and another tree.
func exact(args ...string) []string {
	return append([]string{"-c", "core.commitGraph=false"}, args...)
}

// A committedFile is a file of a commit.
type committedFile struct {
	mode, id string
	before   string // id in the commit before; zeros if the file is new
	state    string // what stands for the content that the person has seen
}

// isContent reports whether what stands for a file is a sum of its content, and
// not its size and time; see seenFile.
func isContent(state string) bool { return !strings.Contains(state, " ") }

// checkContents fails with CHANGES_OUTDATED unless each file has the content that
// the person has seen. It also fails if git has converted the content in an
// unusual way, such as from another encoding. The person then sees that the file
// is committed, and can merge.
func (g *Git) checkContents(ctx context.Context, wr *repository, made []committedFile) error {
	var ids strings.Builder
	for _, f := range made {
		ids.WriteString(f.id + "\n")
	}
	out, err := g.within(ctx, wr, command{args: exact("cat-file", "--batch"), stdin: []byte(ids.String()), time: readTime, most: maxSeenBytes + maxList, reads: true})
	if errors.Is(err, errCut) { // the files have grown
		return outdatedWorktree("merge")
	}
	if err != nil {
		return err
	}
	for _, f := range made {
		content, rest, ok := nextObject(out)
		if !ok {
			return failed("git printed an object in an unknown form.")
		}
		if out = rest; !f.isSeen(content) {
			return outdatedWorktree("merge")
		}
	}
	return nil
}

// nextObject returns the content of the first object in the output of git
// cat-file --batch, and the rest of the output.
func nextObject(out []byte) (content, rest []byte, ok bool) {
	header, rest, ok := bytes.Cut(out, []byte("\n"))
	f := strings.Fields(string(header)) // id, type and size
	if !ok || len(f) != 3 {
		return nil, nil, false
	}
	size, err := strconv.Atoi(f[2])
	if err != nil || size < 0 || size >= len(rest) {
		return nil, nil, false
	}
	return rest[:size], rest[size+1:], true
}

// isSeen reports whether the person has seen this content of the file, or what
// git makes of it in the work tree: with other line ends, and with the id of the
// earlier content (the attribute ident). The permission to execute is not
// compared, because git may ignore it.
func (f committedFile) isSeen(content []byte) bool {
	if f.mode == "120000" {
		for _, mode := range []fs.FileMode{0o777, 0o755} { // of links on Linux and macOS
			if f.state == shortSum(fmt.Appendf(nil, "%o %s", fs.ModeSymlink|mode, content)) {
				return true
			}
		}
		return false // a file with this text is no link
	}
	is := func(c []byte) bool {
		return f.state == shortSum(c, []byte("\x00false")) || f.state == shortSum(c, []byte("\x00true"))
	}
	lines := func(c []byte) []byte { return bytes.ReplaceAll(c, []byte("\n"), []byte("\r\n")) }
	if is(content) || is(lines(content)) {
		return true
	}
	withID := bytes.ReplaceAll(content, []byte("$Id$"), []byte("$Id: "+f.before+" $"))
	return is(withID) || is(lines(withID))
}

// shortSum returns the hash of the joined parts, as [seen] returns it for a file.
func shortSum(parts ...[]byte) string {
	sum := sha256.New()
	for _, p := range parts {
		sum.Write(p)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
