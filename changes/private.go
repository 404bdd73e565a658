package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/nofollow"
	guarded "github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/subpath"
)

// A private git directory lets git work on a repository without reading its
// configuration and without its hooks. It lasts for one command.
type private struct {
	dir      string // temporary
	head     string // what HEAD of the repository contains
	settings []setting
}

func (p *private) remove() { _ = os.RemoveAll(p.dir) }

// kept are the settings of a repository that the private configuration repeats.
// None of them names a program or a file outside of the repository.
var kept = map[string]bool{
	"core.repositoryformatversion": true, "core.filemode": true, "core.ignorecase": true, "core.precomposeunicode": true,
	"core.symlinks": true, "core.autocrlf": true, "core.eol": true, "core.safecrlf": true, "core.sparsecheckout": true,
	"core.sparsecheckoutcone": true, "core.protecthfs": true, "core.protectntfs": true, "index.sparse": true,
	"extensions.objectformat": true, "extensions.refstorage": true, "extensions.noop": true,
	"branch.*.merge": true, "branch.*.remote": true, "remote.*.fetch": true,
	"i18n.commitencoding": true, "commit.gpgsign": true, "gpg.format": true, "user.signingkey": true,
	"user.name": true, "user.email": true, "author.name": true, "author.email": true, "committer.name": true, "committer.email": true,
}

// personal are the settings of a user that the private configuration repeats. A
// configuration of the user may have them for repositories in certain folders only,
// which git cannot recognise by the private directory.
var personal = map[string]bool{
	"user.name": true, "user.email": true, "author.name": true, "author.email": true, "committer.name": true, "committer.email": true,
	"commit.gpgsign": true, "gpg.format": true, "gpg.program": true, "gpg.*.program": true, "gpg.*.defaultkeycommand": true,
	"user.signingkey": true, "core.excludesfile": true,
}

// extensions are the format extensions that the private directory supports, and
// those that it does without.
var extensions = map[string]bool{
	"extensions.objectformat": true, "extensions.refstorage": true, "extensions.noop": true,
	"extensions.worktreeconfig": true, "extensions.partialclone": true, "extensions.preciousobjects": true,
}

// isolate creates a private git directory for r.
func (g *Git) isolate(ctx context.Context, r *repository) (_ *private, err error) {
	if runtime.GOOS == "windows" {
		return nil, failed("On Windows, Runnel uses git in trusted folders only (trusted-folders in the server's configuration).")
	}
	settings, err := g.settings(ctx, r)
	if err != nil {
		return nil, err
	}
	config, err := privateConfig(r.root, settings)
	if err != nil {
		return nil, err
	}
	head, err := nofollow.ReadSmall(filepath.Join(r.dir, "HEAD"), maxPointer)
	if err != nil {
		return nil, failed("HEAD of the repository cannot be read: " + err.Error() + ".")
	}
	if ref, ok := strings.CutPrefix(string(head), "ref:"); ok && !isRef(strings.TrimSpace(ref)) {
		return nil, failed("HEAD of the repository names no valid branch. Check out a branch in a terminal.")
	}
	dir, err := privateDir()
	if err != nil {
		return nil, failed("Runnel cannot create a folder in your cache directory: "+err.Error()+".", err)
	}
	p := &private{dir: dir, head: string(head), settings: settings}
	defer func() {
		if err != nil {
			p.remove()
		}
	}()
	for name, content := range map[string][]byte{"config": []byte(config), "HEAD": head} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("create a private git directory: %w", err)
		}
	}
	if err := p.copyInfo(r); err != nil {
		return nil, err
	}
	links := map[string]string{
		"objects": filepath.Join(r.common, "objects"), "refs": filepath.Join(r.common, "refs"),
		"packed-refs": filepath.Join(r.common, "packed-refs"), "shallow": filepath.Join(r.common, "shallow"),
		"reftable": filepath.Join(r.dir, "reftable"),
	}
	shared, _ := filepath.Glob(filepath.Join(r.dir, "sharedindex.*")) // of a split index; the pattern is correct
	for _, path := range shared {
		links[filepath.Base(path)] = path
	}
	if r.known != nil && r.known.listed {
		delete(links, "objects")
		if err := p.linkObjects(filepath.Join(r.common, "objects"), r.known.alternates); err != nil {
			return nil, err
		}
	}
	for name, to := range links {
		if _, err := os.Lstat(to); err != nil || r.known != nil && r.known.absent[to] {
			continue // what appeared since the inspection may be a link for a moment
		}
		if err := os.Symlink(to, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return nil, fmt.Errorf("create a private git directory: %w", err)
		}
	}
	return p, nil
}

// maxInfo bounds the files in info of a git directory, in bytes.
const maxInfo = 4 << 20

// copyInfo copies the files in info of the git directory. A link in the place of
// one would let git read any file of the user as patterns, so it counts as
// absent.
func (p *private) copyInfo(r *repository) error {
	info := filepath.Join(p.dir, "info")
	if err := os.Mkdir(info, 0o700); err != nil {
		return fmt.Errorf("create a private git directory: %w", err)
	}
	for name, dir := range map[string]string{"exclude": r.common, "attributes": r.common, "sparse-checkout": r.dir} {
		patterns, err := nofollow.ReadSmall(filepath.Join(dir, "info", name), maxInfo)
		if errors.Is(err, nofollow.ErrTooLong) {
			return failed(filepath.Join(dir, "info", name) + " is too long. Use git in a terminal.")
		}
		if err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(info, name), patterns, 0o600); err != nil {
			return fmt.Errorf("create a private git directory: %w", err)
		}
	}
	return nil
}

// leftover is the age at which a private directory belongs to no command. Its
// server was killed.
const leftover = time.Hour

// privateDir creates an empty directory in the cache of the user. Agents in a
// sandbox can often write to the system's folder for temporary files, and could
// add settings there. privateDir fails if another user could. It removes old
// directories.
func privateDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	all := filepath.Join(cache, "runnel", "git")
	for _, dir := range []string{filepath.Dir(all), all} {
		if err := guarded.Dir(dir); err != nil { // the cache may be in a folder in which others can create folders
			return "", err
		}
	}
	entries, err := os.ReadDir(all)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if st, err := e.Info(); err == nil && time.Since(st.ModTime()) > leftover {
			_ = os.RemoveAll(filepath.Join(all, e.Name()))
		}
	}
	return os.MkdirTemp(all, "")
}

// A setting is a key with its value. own means that it comes from the
// repository and not from the user. file is the file that contains it.
type setting struct {
	key, value, file string
	own              bool
}

// settings returns the settings that apply to the repository. Reading them runs
// nothing. It reads them once for consecutive commands that change nothing. Those
// that such a command gets cannot run anything, even if they are outdated.
func (g *Git) settings(ctx context.Context, r *repository) ([]setting, error) {
	if r.settings != nil {
		return r.settings, nil
	}
	out, err := g.run(ctx, r, command{
		args: []string{"config", "--null", "--includes", "--show-scope", "--show-origin", "--list"}, time: readTime, most: maxSettings,
		env: []string{"GIT_DIR=" + r.dir},
	})
	if err != nil {
		return nil, err
	}
	var list []setting
	fields := strings.Split(string(out), "\x00") // scope, origin, then key and value
	for i := 0; i+2 < len(fields); i += 3 {
		key, value, hasValue := strings.Cut(fields[i+2], "\n")
		if !hasValue {
			value = "true"
		}
		list = append(list, setting{key, value, strings.TrimPrefix(fields[i+1], "file:"), fields[i] == "local" || fields[i] == "worktree"})
	}
	r.settings = list
	return list, nil
}

// privateConfig returns the configuration with those settings of the repository at
// root that cannot run anything, and with those of the user. A file of the user in
// the repository counts as the repository's.
func privateConfig(root string, settings []setting) (string, error) {
	root = canonical(root)
	var b strings.Builder
	b.WriteString("[core]\n\tbare = false\n\tsplitIndex = false\n") // a new shared index would go to the private directory
	for _, s := range settings {
		section, rest, _ := strings.Cut(s.key, ".")
		middle, name := "", rest
		if i := strings.LastIndexByte(rest, '.'); i >= 0 {
			middle, name = rest[:i], rest[i+1:]
		}
		known := section + "." + name
		if middle != "" {
			known = section + ".*." + name
		}
		switch {
		case section == "extensions" && s.own && !extensions[s.key]:
			return "", failed("The repository has the format extension " + name + ", which Runnel supports in trusted folders only.")
		case s.own && !kept[known], !s.own && (!personal[known] || !kept[known] && subpath.Within(canonical(s.file), root)), known == "branch.*.remote" && strings.ContainsAny(s.value, ":/\\"):
			continue
		}
		b.WriteString("[" + section)
		if middle != "" {
			b.WriteString(" " + quote(middle))
		}
		b.WriteString("]\n\t" + name + " = " + quote(s.value) + "\n")
	}
	return b.String(), nil
}

// quote quotes a value or a subsection for a configuration.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\x00", "").Replace(s) + `"`
}

// checkBranch fails if HEAD names something else than a branch, if a link
// replaces the file of the branch or a folder of it, or if the branch stands for
// another reference, because git would then write elsewhere.
func (r *repository) checkBranch() error {
	head, err := nofollow.ReadSmall(filepath.Join(r.dir, "HEAD"), maxPointer)
	if err != nil {
		return failed("HEAD of the repository cannot be read: " + err.Error() + ".")
	}
	branch, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/")
	if !ok {
		return failed("HEAD of the repository names no branch. Check out a branch in a terminal, then commit.")
	}
	return r.checkBranchFile(branch)
}

// checkBranchFile is the part of checkBranch that applies to any branch.
func (r *repository) checkBranchFile(branch string) error {
	path := filepath.Join(r.common, "refs", "heads")
	for _, name := range strings.Split(branch, "/") {
		path = filepath.Join(path, name)
		if st, err := os.Lstat(path); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return failed(path + " is a link. Runnel follows it in trusted folders only.")
		}
	}
	if ref, err := nofollow.ReadSmall(path, maxPointer); err == nil && strings.HasPrefix(string(ref), "ref:") {
		return failed(path + " stands for another reference. Runnel follows it in trusted folders only.")
	}
	return nil
}
