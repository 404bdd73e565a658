package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/termtext"
)

func (a *app) sessionsRename() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rename ID TITLE",
		Short: "Give a session a title",
		Long: `Give a session a title of one line, at most 200 bytes. The title stays when the
agent reports another one. An empty TITLE shows the agent's title again. It
needs the running server.`,
		Example: `  runnel sessions rename 0192f0c1 "Fix the login"
  runnel sessions rename 0192f0c1 ""`,
		Args: exactly(2, "the id of a session and its new title are needed; 'runnel sessions list' shows the ids"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSession(cmd, args[0], func(r remoteSessions, id string) error {
				st, err := r.rename(cmd.Context(), id, args[1])
				if err != nil {
					return err
				}
				a.stderrf("The title of %s is now: %s", termtext.Clean(id), oneLine(st.Title, gateway.MaxChosenTitle))
				return nil
			})
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}

func (a *app) sessionsArchive() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use:   "archive [--undo] ID",
		Short: "Leave a session out of lists",
		Long: `Archive a session: 'runnel sessions list' and the page's list leave it out.
Nothing is deleted. 'runnel sessions list --archived' lists it, and every other
command still accepts its id. A prompt takes the session out of the archive. It
needs the running server, and fails while a turn runs.`,
		Example: `  runnel sessions archive 0192f0c1
  runnel sessions list --archived
  runnel sessions archive --undo 0192f0c1`,
		Args: exactly(1, "the id of a session is needed; 'runnel sessions list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSession(cmd, args[0], func(r remoteSessions, id string) error {
				if _, err := r.archive(cmd.Context(), id, !undo); err != nil {
					return err
				}
				if undo {
					a.stderrf("%s is listed again", termtext.Clean(id))
				} else {
					a.stderrf("%s is archived; 'runnel sessions archive --undo' takes it out again", termtext.Clean(id))
				}
				return nil
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&undo, "undo", false, "take the session out of the archive")
	return cmd
}

func (a *app) sessionsDelete() *cobra.Command {
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:   "delete [--yes | --dry-run] ID",
		Short: "Delete a session and everything stored about it",
		Long: `Delete a session: its turn and its agent end, and its events, queued prompts,
debug capture and uploads are deleted. This cannot be undone; 'archive' only
leaves a session out of lists. The agent's own transcript of the conversation
stays, and the command prints where it is. The session's git worktree is removed
only if that loses no work. It needs the running server.

On a terminal the command first asks, and says what it would free. A program
must give --yes.`,
		Example: `  runnel sessions delete 0192f0c1
  runnel sessions delete --dry-run 0192f0c1 | jq .freedBytes
  runnel sessions delete --yes 0192f0c1`,
		Args: exactly(1, "the id of a session is needed; 'runnel sessions list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if yes && dryRun {
				return usage("--yes and --dry-run exclude each other")
			}
			if !yes && !dryRun && !a.terminal(a.in) {
				return usage("standard input is no terminal, so the command cannot ask; give --yes to delete, or --dry-run to see what it would free")
			}
			return a.withSession(cmd, args[0], func(r remoteSessions, id string) error {
				if !yes {
					d, err := r.deletion(cmd.Context(), id)
					if err != nil {
						return err
					}
					if dryRun {
						return a.printJSON(d)
					}
					if sure, err := a.confirmDeletion(cmd.Context(), d); err != nil || !sure {
						return err
					}
				}
				d, err := r.remove(cmd.Context(), id)
				if err != nil {
					return err
				}
				a.stderrf("Deleted %s: %s", termtext.Clean(id), freed(d))
				return nil
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "delete without asking")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "delete nothing, and print as JSON what would be freed")
	return cmd
}

// confirmDeletion asks the person at the terminal whether to delete a session.
func (a *app) confirmDeletion(ctx context.Context, d gateway.Deletion) (bool, error) {
	what := "Delete the session " + termtext.Clean(d.SessionID) + "?"
	if d.TurnID != "" {
		what += " Its running turn ends."
	}
	if d.Queued > 0 {
		what += fmt.Sprintf(" It has %d queued prompts.", d.Queued)
	}
	return a.confirm(ctx, what+" It frees "+freed(d)+". This cannot be undone.", "delete", "Nothing was deleted.")
}

// confirm asks a question of the person at the terminal, and returns whether the
// answer is yes. verb says what yes does. If the answer is no, confirm prints
// refused.
func (a *app) confirm(ctx context.Context, question, verb, refused string) (bool, error) {
	in := &typed{in: a.in}
	lines := in.begin() // before the question, which an earlier line cannot be about
	go in.read()        // runs until the input or the process ends
	a.stderrf("%s", question)
	fmt.Fprintf(a.err, "Type yes to %s: ", verb)
	select {
	case line, ok := <-lines:
		if ok && strings.TrimSpace(line) == "yes" {
			return true, nil
		}
		if !ok {
			fmt.Fprintln(a.err)
		}
		a.stderrf("%s", refused)
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// freed says what a deletion frees and what it leaves.
func freed(d gateway.Deletion) string {
	text := fmt.Sprintf("about %d bytes", d.FreedBytes)
	if t := d.Transcript; t != nil && t.Path != "" {
		text += "; the agent's own transcript stays: " + termtext.Clean(t.Path)
	} else if t != nil {
		text += "; the agent's own transcript " + oneLine(t.AgentSessionID, 80) + " stays"
	}
	switch w := d.Worktree; {
	case w == nil:
	case w.Stays:
		text += "; its worktree " + termtext.Clean(w.Root) + " and the branch " + termtext.Clean(w.Branch) + " stay: " + oneLine(w.Why, 600)
	default:
		text += "; its worktree " + termtext.Clean(w.Root) + " has no work, and is removed with its branch"
	}
	return text
}

// withSession calls f with the running server and the id of the session whose
// id begins with id. It fails if no server runs.
func (a *app) withSession(cmd *cobra.Command, id string, f func(r remoteSessions, id string) error) error {
	return a.withSessions(cmd, func(s sessions) error {
		remote, ok := s.(remoteSessions)
		if !ok {
			return errStartServer
		}
		row, err := pick(cmd.Context(), s, id)
		if err != nil {
			return err
		}
		return f(remote, row.SessionID)
	})
}

func (r remoteSessions) rename(ctx context.Context, id, title string) (st gateway.Status, err error) {
	err = r.ad.post(ctx, sessionPath(id, "rename"), map[string]string{"title": title}, &st)
	return st, err
}

func (r remoteSessions) archive(ctx context.Context, id string, archived bool) (st gateway.Status, err error) {
	err = r.ad.post(ctx, sessionPath(id, "archive"), map[string]bool{"archived": archived}, &st)
	return st, err
}

func sessionPath(id, verb string) string { return "/api/session/" + url.PathEscape(id) + "/" + verb }

func (r remoteSessions) deletion(ctx context.Context, id string) (d gateway.Deletion, err error) {
	err = r.ad.get(ctx, sessionPath(id, "deletion"), &d)
	return d, err
}

func (r remoteSessions) remove(ctx context.Context, id string) (d gateway.Deletion, err error) {
	err = r.ad.do(ctx, http.MethodDelete, "/api/session/"+url.PathEscape(id), nil, &d)
	return d, err
}
