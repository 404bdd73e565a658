package main

import (
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// warnOfLinks warns of folders that the settings name as trusted and that are
// not trusted, because their paths lead through a link.
func (a *app) warnOfLinks(folders []string) {
	for _, dir := range folders {
		if link := gateway.LinkTo(dir); link != "" {
			a.stderrf("runnel: warning: %s: %s is not trusted, because %s is a link, which an agent or another user may be able to replace; write the path to which it leads",
				trustedKey, termtext.Clean(dir), termtext.Clean(link))
		}
	}
}
