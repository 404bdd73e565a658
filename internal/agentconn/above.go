package agentconn

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/text"
)

// checkAbove fails if everybody can write in a folder above a trusted folder, such
// as /tmp, and another user has put one of these names there, which the agent obeys.
func checkAbove(opt runnel.Options, names []string) error {
	if !opt.Trusted || opt.Sandbox.IsOn() { // a sandbox shows nothing of it
		return nil
	}
	dirs, err := folders(runnel.Options{Dir: opt.Dir})
	if err != nil {
		return err
	}
	for at, up := dirs[0], filepath.Dir(dirs[0]); up != at; at, up = up, filepath.Dir(up) {
		info, err := os.Stat(up)
		if err != nil || info.Mode().Perm()&0o002 == 0 {
			continue
		}
		entries, err := os.ReadDir(up)
		if err != nil {
			continue // agents find nothing either, unless they guess the name
		}
		for _, e := range entries {
			known := slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, e.Name()) })
			if info, err := e.Info(); !known || err != nil || !private.Foreign(info) {
				continue
			}
			return runnel.Fail(runnel.SessionCreateFailed, text.OneLine(filepath.Join(up, e.Name()), 500)+" belongs to another user of this machine, and an agent may obey it in every folder below. "+
				"Have it removed, or move the folder to a place where no other user can create files.")
		}
	}
	return nil
}
