package main

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// worktreeFlags are the flags of `sessions worktree`.
type worktreeFlags struct {
	merge, remove, discard, asJSON bool
	message, seen                  string
}

func (a *app) sessionsWorktree() *cobra.Command {
	var f worktreeFlags
	cmd := &cobra.Command{
		Use:   "worktree [--merge [--message TEXT] | --remove [--discard]] [--seen VALUE] ID",
		Short: "Show, merge or remove the git worktree of a session",
		Long: `Show the git worktree of a session that was started with 'runnel run
--worktree', on the page or by the API: its folder and branch, the commits that
the project's branch lacks, and the files that are not committed. It needs the
running server.

--merge adds the commits to the branch that is checked out in the project, and
updates the project's files. If files are not committed, --message commits all
of them first; without it, the command fails and lists them. A merge that
conflicts, or that would overwrite changes in the project, fails and changes
nothing there.

--remove removes the worktree and its branch, and stops the agent. The session
can then only be read. It fails if files or commits would be lost; --discard
removes them, too. Files that git ignores, such as .env, are always removed.
Both fail while a turn runs.

--merge and --discard act only on the state that you have seen, and fail if the
worktree or the project's branch has changed since. On a terminal, the command
shows the state and asks. A program must give --seen with the value of "seen"
from 'runnel sessions worktree --json ID'.`,
		Example: `  runnel sessions worktree 0192f0c1
  runnel sessions worktree --merge --message "Fix the login" 0192f0c1
  runnel sessions worktree --merge --seen "$(runnel sessions worktree --json 0192f0c1 | jq -r .seen)" 0192f0c1
  runnel sessions worktree --remove 0192f0c1
  cd "$(runnel sessions worktree --json 0192f0c1 | jq -r .root)"`,
		Args: exactly(1, "the id of a session is needed; 'runnel sessions list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(a.terminal(a.in)); err != nil {
				return err
			}
			return a.withSession(cmd, args[0], func(r remoteSessions, id string) error {
				return a.worktree(cmd.Context(), r, id, f)
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&f.merge, "merge", false, "merge the worktree into the project's branch")
	cmd.Flags().StringVarP(&f.message, "message", "m", "", "with --merge: commit the files that are not committed, with this `TEXT` as the message")
	cmd.Flags().BoolVar(&f.remove, "remove", false, "remove the worktree and its branch")
	cmd.Flags().BoolVar(&f.discard, "discard", false, "with --remove: also if files or commits are lost")
	cmd.Flags().StringVar(&f.seen, "seen", "", "with --merge or --remove: fail unless the state is the one with this `VALUE`")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print a JSON object")
	return cmd
}

// check checks the flags. asks is whether a person can answer a question.
func (f worktreeFlags) check(asks bool) error {
	switch {
	case f.merge && f.remove:
		return usage("--merge and --remove exclude each other; merge first, then remove")
	case f.message != "" && !f.merge:
		return usage("--message needs --merge")
	case f.discard && !f.remove:
		return usage("--discard needs --remove")
	case f.seen != "" && !f.merge && !f.remove:
		return usage("--seen needs --merge or --remove")
	case f.needsSeen() && !asks:
		return usage("standard input is no terminal, so the command cannot show the state and ask; give --seen with the value of \"seen\" from 'runnel sessions worktree --json ID'")
	}
	return nil
}

// needsSeen reports whether a person must confirm the state of the worktree.
func (f worktreeFlags) needsSeen() bool { return f.seen == "" && (f.merge || f.discard) }

// worktree shows, merges or removes the worktree of a session.
func (a *app) worktree(ctx context.Context, r remoteSessions, id string, f worktreeFlags) error {
	if !f.merge && !f.remove || f.needsSeen() {
		var st changes.WorktreeStatus
		if err := r.ad.get(ctx, sessionPath(id, "worktree"), &st); err != nil {
			return err
		}
		switch {
		case f.needsSeen():
			if sure, err := a.confirmWorktree(ctx, st, f); err != nil || !sure {
				return err
			}
			f.seen = st.Seen
		case f.asJSON:
			return a.printJSON(st)
		default:
			return a.printWorktree(a.out, st)
		}
	}
	if f.merge {
		return a.mergeWorktree(ctx, r, id, f)
	}
	return a.removeWorktree(ctx, r, id, f)
}

// confirmWorktree shows the state of a worktree on the terminal and asks whether
// to go on.
func (a *app) confirmWorktree(ctx context.Context, st changes.WorktreeStatus, f worktreeFlags) (bool, error) {
	if err := a.printWorktree(a.err, st); err != nil {
		return false, err
	}
	for _, file := range st.Files {
		a.stderrf("  %s", oneLine(file, 200))
	}
	if f.merge {
		return a.confirm(ctx, "Merge this into "+oneLine(st.Target, 80)+"?", "merge", "Nothing was merged.")
	}
	return a.confirm(ctx, "Remove the worktree and discard what is not merged? This cannot be undone.", "discard", "Nothing was removed.")
}

func (a *app) mergeWorktree(ctx context.Context, r remoteSessions, id string, f worktreeFlags) error {
	var m changes.Merged
	if err := r.ad.post(ctx, sessionPath(id, "worktree/merge"), map[string]string{"message": f.message, "seen": f.seen}, &m); err != nil {
		return err
	}
	if f.asJSON {
		return a.printJSON(m)
	}
	a.stderrf("Merged %s into %s, which is now at %s", plural(m.Commits, "commit"), termtext.Clean(m.Branch), termtext.Clean(m.Commit))
	return nil
}

func (a *app) removeWorktree(ctx context.Context, r remoteSessions, id string, f worktreeFlags) error {
	var out changes.Removed
	if err := r.ad.post(ctx, sessionPath(id, "worktree/remove"), map[string]any{"discard": f.discard, "seen": f.seen}, &out); err != nil {
		return err
	}
	if f.asJSON {
		return a.printJSON(out)
	}
	a.stderrf("Removed %s", removedText(out))
	return nil
}

// removedText says what a removal removed and what was lost.
func removedText(out changes.Removed) string {
	said := termtext.Clean(out.Root)
	if out.Branch != "" {
		said += "; the branch " + termtext.Clean(out.Branch) + " stays, because it is checked out elsewhere"
	}
	if len(out.Lost) > 0 {
		said += "; lost: " + oneLine(strings.Join(out.Lost, ", and "), 600)
		if out.Head != "" {
			said += ". 'git branch NAME " + termtext.Clean(out.Head) + "' restores the commits"
		}
	}
	return said
}

// printWorktree prints the state of a worktree to out.
func (a *app) printWorktree(out io.Writer, st changes.WorktreeStatus) error {
	t := table{columns: []column{{"WORKTREE", whole}, {"BRANCH", whole}, {"AHEAD", whole}, {"BEHIND", whole}, {"NOT COMMITTED", whole}}}
	if st.State != changes.WorktreeReady {
		t.add(cell(st.Root), cell(st.Branch), "-", "-", "-")
		if err := t.write(out, 0); err != nil {
			return err
		}
		a.stderrf("%s: %s", oneLine(string(st.State), 80), oneLine(st.Problem, 600))
		return nil
	}
	more := ""
	if st.More {
		more = "+"
	}
	branch := st.Current
	if branch == "" {
		branch = "(none)"
	}
	t.add(cell(st.Root), cell(branch), strconv.Itoa(st.Ahead), strconv.Itoa(st.Behind), strconv.Itoa(st.Uncommitted)+more)
	if err := t.write(out, 0); err != nil {
		return err
	}
	if st.Operation != "" {
		a.stderrf("A %s is not finished in the worktree.", oneLine(st.Operation, 80))
	}
	if st.Target == "" {
		a.stderrf("No branch is checked out in the project, so nothing can be merged.")
	}
	return nil
}
