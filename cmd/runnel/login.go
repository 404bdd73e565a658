package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// pageLink returns the link that logs a browser in. The code is in the
// fragment, which browsers never send, so no server log contains it.
func pageLink(origin, code string) string { return origin + "/#c=" + code }

// answeredLink returns the login link from a server's response, after checking
// that it is one. The server may be malicious, and its text could control the
// terminal or the browser.
func answeredLink(origin, code string) (string, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != origin || termtext.Clean(origin) != origin || !auth.IsSecret(code) {
		return "", fmt.Errorf("the server's response contains no valid link to a page at %s; check that RUNNEL_URL is the address of a runnel server", oneLine(strconv.Quote(origin), 200))
	}
	return pageLink(origin, code), nil
}

// A codeRequest asks for a login code.
type codeRequest struct {
	NewOrigin bool `json:"newOrigin,omitempty"`
}

func (a *app) loginCommand() *cobra.Command {
	var newOrigin, open bool
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Print a link that logs a browser in to the page",
		Long: `Print a link that logs one browser in to the page of the running server. The
link works once and expires after one minute. You need no password: the server
recognises your user on its unix socket. It gives no link to agents that it
started.

Do not pass the link as an argument to another program, because other users of
the machine can see a program's arguments. Use --open to open the link in your
browser.`,
		Example: "  runnel login\n  runnel login --open\n  runnel login --new-origin",
		Args:    nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			ad, err := connect(cmd.Context(), c)
			if errors.Is(err, errNoServer) {
				return fmt.Errorf("no server uses %s; start one with 'runnel serve'. To reach a server without a unix socket, set RUNNEL_URL and RUNNEL_TOKEN", termtext.Clean(c.Data))
			} else if err != nil {
				return err
			}
			var answer struct{ URL, Code string }
			if err := ad.post(cmd.Context(), "/api/login/code", codeRequest{newOrigin}, &answer); err != nil {
				return err
			}
			link, err := answeredLink(answer.URL, answer.Code)
			if err != nil {
				return err
			}
			if open {
				return a.openLink(cmd.Context(), c.Data, link)
			}
			_, err = fmt.Fprintln(a.out, link)
			return err
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "open the link in your browser instead of printing it")
	cmd.Flags().BoolVar(&newOrigin, "new-origin", false, "first move the page to a new host name that no program has used; this logs out every browser")
	placeFlags(cmd.Flags())
	return cmd
}
