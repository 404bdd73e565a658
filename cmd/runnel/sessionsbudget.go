package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/termtext"
)

func (a *app) sessionsBudget() *cobra.Command {
	var set runnel.Budget
	cmd := &cobra.Command{
		Use:   "budget ID [--usd AMOUNT] [--tokens N] [--minutes N]",
		Short: "Change the budget of a session",
		Long: `Change the budget that bounds all turns of a session together. A session that has
used up its budget refuses prompts until it has a higher one. Bounds that no flag
sets stay as they are. Every prompt counts what the session has used since it was
created. It needs the running server.`,
		Example: `  runnel sessions budget 0192f0c1 --usd 10
  runnel sessions budget 0192f0c1 --tokens 5000000 --minutes 240`,
		Args: exactly(1, "the id of a session is needed; 'runnel sessions list' shows the ids"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"usd", "tokens", "minutes"} { // the server takes 0 for a bound that stays
				if f := cmd.Flags().Lookup(name); f.Changed && (f.Value.String() == "0" || strings.HasPrefix(f.Value.String(), "-")) {
					return usage("--%s: want more than 0", name)
				}
			}
			if set.IsZero() {
				return usage("give --usd, --tokens or --minutes")
			}
			return a.withSession(cmd, args[0], func(r remoteSessions, id string) error {
				if err := r.setBudget(cmd.Context(), id, set); err != nil {
					return err
				}
				a.stderrf("The budget of %s now has: %s", termtext.Clean(id), shownBudget(set))
				return nil
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().Float64Var(&set.USD, "usd", 0, "cost, an `AMOUNT` of US dollars as the agent reports it")
	cmd.Flags().Int64Var(&set.Tokens, "tokens", 0, "`N` tokens of input and output")
	cmd.Flags().Float64Var(&set.Minutes, "minutes", 0, "`N` minutes in which turns run")
	return cmd
}

func (r remoteSessions) setBudget(ctx context.Context, id string, b runnel.Budget) error {
	return r.ad.do(ctx, http.MethodPost, sessionPath(id, "options"), map[string]any{"budget": b}, nil)
}

// shownBudget lists the bounds of b.
func shownBudget(b runnel.Budget) string {
	var out []string
	if b.USD > 0 {
		out = append(out, "$"+strconv.FormatFloat(b.USD, 'f', -1, 64))
	}
	if b.Tokens > 0 {
		out = append(out, strconv.FormatInt(b.Tokens, 10)+" tokens")
	}
	if b.Minutes > 0 {
		out = append(out, strconv.FormatFloat(b.Minutes, 'f', -1, 64)+" minutes")
	}
	return strings.Join(out, ", ")
}
