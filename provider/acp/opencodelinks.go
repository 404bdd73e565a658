package acp

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// opencode compares paths by their text, so it takes a file behind a link in the
// folder for one of the folder (1.18.33). A folder that is not trusted could make
// it read any file in this way.

// opencodeAtLinks returns env, changed so that opencode asks before it reads or
// changes what a link in the repository leads to outside of it. If there is such
// a link, opencode also asks before each search, because the permission for a
// search does not depend on where it begins, and before each change, because the
// permission for a patch does not depend on where it moves files.
func opencodeAtLinks(env []string, opt runnel.Options) []string {
	const name = "OPENCODE_PERMISSION"
	at := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	var rules map[string]any
	if at < 0 || opt.PermissionMode == runnel.ModeBypass || json.Unmarshal([]byte(strings.TrimPrefix(env[at], name+"=")), &rules) != nil {
		return env
	}
	names := linksOutside(opt.Dir)
	if len(names) == 0 {
		return env
	}
	action := "ask"
	if opt.PermissionMode == runnel.ModeDontAsk {
		action = "deny"
	}
	behind := map[string]string{}
	for _, n := range names {
		first := n
		if n[0] == '~' || n[0] == '$' { // opencode would replace ~ or $HOME by the home directory
			first = "?" + n[1:]
		}
		for _, pattern := range []string{first, first + "/*", "*/" + n, "*/" + n + "/*"} {
			behind[pattern] = action
		}
	}
	all := map[string]string{"*": action}
	for tool, patterns := range map[string]map[string]string{
		"read": behind, "edit": all, "grep": all, "glob": all, "list": all,
	} {
		if rules[tool] != "deny" {
			rules[tool+"*"] = patterns // behind the user's own rules for the tool, which it does not replace
		}
	}
	return agentconn.SetVariable(env, name, string(translate.Object(rules)))
}

// maxLinkNames bounds the bytes of the names that linksOutside returns.
const maxLinkNames = 16 << 10

// linksOutside returns the names of the links, anywhere in a repository that
// contains dir, that lead outside of it. Git ignores a .git that is no repository,
// so every folder with one is searched. Every path in which one of these names is
// an element may lead outside: another link may lead to the folder of the link. If
// the names or the files are too many, if a folder cannot be listed, or if the file
// system may know a link by another spelling of its name, linksOutside returns "*".
// Folders that nobody can enter are left out.
func linksOutside(dir string) []string {
	if dir == "" {
		return nil
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	roots, names, size, seen := repositories(dir), make(map[string]bool), 0, 0
	leads := func(path string) bool { // also if nothing exists there yet
		to, same := targetOf(path)
		return !same || slices.ContainsFunc(roots, func(root string) bool { return inside(path, root) && !inside(to, root) })
	}
	for queue := roots[len(roots)-1:]; len(queue) > 0; queue = queue[1:] {
		err := eachEntry(queue[0], func(e fs.DirEntry) bool {
			path := filepath.Join(queue[0], e.Name())
			switch seen++; {
			case e.IsDir():
				queue = append(queue, path)
			case e.Type()&fs.ModeSymlink == 0 || names[e.Name()]:
			case leads(path):
				names[e.Name()] = true
				size += len(e.Name())
			}
			return seen <= maxBelow && size <= maxLinkNames
		})
		if err != nil && canEnter(queue[0]) { // the agent can know the names of links in it
			return []string{"*"}
		}
	}
	if len(names) > 0 && runtime.GOOS != "linux" {
		return []string{"*"}
	}
	return slices.Sorted(maps.Keys(names))
}

// canEnter reports whether the files in a folder can be opened, although perhaps
// not listed.
func canEnter(dir string) bool {
	_, err := os.Lstat(dir + string(filepath.Separator) + ".")
	return err == nil
}
