package main

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
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
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host+u.Path != origin || u.Path != "" && path.Clean(u.Path) != u.Path || u.Path == "/" || termtext.Clean(origin) != origin || !auth.IsSecret(code) {
		return "", fmt.Errorf("the server's response contains no valid link to a page at %s; check that RUNNEL_URL is the address of a runnel server", oneLine(strconv.Quote(origin), 200))
	}
	return pageLink(origin, code), nil
}

// A codeRequest asks for a login code.
type codeRequest struct {
	NewOrigin bool `json:"newOrigin,omitempty"`
}

func (a *app) loginCommand() *cobra.Command {
	var newOrigin, open, code bool
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Print a link and a QR code that log a browser in to the page",
		Long: `Print a link that logs one browser in to the page of the running server. The
link works once and expires after one minute. You need no password: the server
recognises your user on its unix socket. It gives no link to agents that it
started.

On a terminal, the command also prints a QR code of the link for a phone, if
other devices can reach the page: if the server was started with --lan, or with
--origin and an https URL. The link in the code and the printed link are the
same login: one of them works, once.

Do not pass the link as an argument to another program, because other users of
the machine can see a program's arguments. Use --open to open the link in your
browser.`,
		Example: "  runnel login\n  runnel login --open\n  runnel login --qr\n  runnel login --new-origin",
		Args:    nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if open && code {
				return usage("--open and --qr cannot be used together: both would be the same login, which works once")
			}
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
			var answer loginLinks
			if err := ad.post(cmd.Context(), "/api/login/code", codeRequest{newOrigin}, &answer); err != nil {
				return err
			}
			link, elsewhere, err := answer.check()
			if err != nil {
				return err
			}
			if open {
				return a.openLink(cmd.Context(), c.Data, link)
			}
			return a.printLinks(link, elsewhere, code)
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "open the link in your browser instead of printing it")
	cmd.Flags().BoolVar(&code, "qr", false, "print the QR code for a phone even if the output is no terminal; an error if no other device can reach the page")
	cmd.Flags().BoolVar(&newOrigin, "new-origin", false, "first move the page to a new host name that no program has used; this logs out every browser")
	placeFlags(cmd.Flags())
	return cmd
}

// loginLinks is the server's answer to a codeRequest.
type loginLinks struct{ URL, NetworkURL, Code string }

// check returns the login link, and the link for other devices, or "" if they
// cannot reach the page.
func (l loginLinks) check() (link, elsewhere string, err error) {
	if link, err = answeredLink(l.URL, l.Code); err != nil {
		return "", "", err
	}
	switch u, err := url.Parse(l.URL); {
	case l.NetworkURL != "":
		elsewhere, err = answeredLink(l.NetworkURL, l.Code)
		return link, elsewhere, err
	case err == nil && u.Scheme == "https" && !onlyHere(u.Hostname()):
		elsewhere = link
	}
	return link, elsewhere, nil
}

// onlyHere reports whether other devices cannot reach this machine under a host
// name, because the name means the device itself.
func onlyHere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return underLocalhost(host) || err == nil && ip.IsLoopback()
}

// printLinks prints the login link, and for other devices a QR code of the link
// elsewhere: on a terminal, or if must is set. elsewhere is "" if other devices
// cannot reach the page.
func (a *app) printLinks(link, elsewhere string, must bool) error {
	if must && elsewhere == "" {
		return errNotElsewhere
	}
	if _, err := fmt.Fprintln(a.out, link); err != nil {
		return err
	}
	width := a.width()
	switch {
	case elsewhere != "" && (must || width > 0):
	case width > 0:
		a.stderrf("For a phone, start the server with --lan; or with --origin, behind a tailnet or a reverse proxy.")
		return nil
	default:
		return nil
	}
	lines, wide, err := qrCode(elsewhere)
	if err != nil {
		return err
	}
	if width > 0 && width < wide {
		lines = fmt.Sprintf("(The code needs a terminal of %d columns; this one has %d.)\n", wide, width)
	}
	note := ""
	if elsewhere != link {
		note = "If its browser warns, trust the certificate first: run 'runnel certificate'.\n"
	}
	_, err = fmt.Fprintf(a.out, "\nOn a phone, scan this code within a minute, or open %s\n\n%s\n%s", elsewhere, lines, note)
	return err
}

var errNotElsewhere = errors.New("no other device can reach the page; start the server with --lan, or with --origin and an https URL behind a tailnet or a reverse proxy")
