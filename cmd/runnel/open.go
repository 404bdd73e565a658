package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// redirectFile returns the path of a page that redirects a browser to a login
// link. Every user of the machine can read the arguments of a process, so a
// browser is started with this path instead of the link. Only the owner can
// read the file. The code in it works once, for a minute.
func redirectFile(data string) string { return filepath.Join(data, "login.html") }

const redirectPage = `<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url=%[1]s">
<title>Runnel</title>
<p><a href="%[1]s">Open the page</a></p>
`

// openLink opens a login link in this user's browser.
func (a *app) openLink(ctx context.Context, data, link string) error {
	file := redirectFile(data)
	if err := writeRedirect(file, link); err != nil {
		return fmt.Errorf("write the file that redirects the browser to the page: %w", err)
	}
	if err := openFile(ctx, file); err != nil {
		return fmt.Errorf("%w; run 'runnel login' and open the link that it prints", err)
	}
	a.stderrf("Opening %s in your browser, which redirects to the page. If the browser cannot read that file, open the link that 'runnel login' prints.", termtext.Clean(file))
	return nil
}

func writeRedirect(file, link string) error {
	if err := private.Dir(filepath.Dir(file)); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, redirectPage, html.EscapeString(link))
	return errors.Join(err, f.Close())
}

// openers are the commands that open a file with its default program. Other
// systems use xdg-open.
var openers = map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}

// openerTime is how long openFile waits for the opener. Some openers run until
// the browser ends.
const openerTime = 5 * time.Second

// openFile opens a file with its default program. It reports the error of an
// opener that fails within openerTime.
func openFile(ctx context.Context, file string) error {
	opener, ok := openers[runtime.GOOS]
	if !ok {
		opener = []string{"xdg-open"}
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), opener[0], append(opener[1:len(opener):len(opener)], file)...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("open a browser: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // runs until the opener or this process ends
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("open a browser with %s: %w", opener[0], err)
		}
	case <-time.After(openerTime):
	}
	return nil
}
