package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel/internal/nofollow"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/internal/text"
)

const (
	maxAlternatesSize    = 8 << 10 // bytes of a list of further folders of objects, which git calls alternates
	maxAlternatesEntries = 16      // folders in it
)

// isList reports whether git may read a file as a list of further folders of
// objects. The file system may ignore case.
func (in *inspection) isList(path string) bool {
	const name = "/info/alternates"
	return strings.EqualFold(path, filepath.Join(in.r.common, "objects", filepath.FromSlash(name))) ||
		in.inAlternate && strings.HasSuffix(strings.ToLower(filepath.ToSlash(path)), name)
}

// alternatesList examines a list of further folders of objects that is not empty.
// Each must be in the folder itself. While git reads, it gets a copy of the list
// from [private.linkObjects], because a program can change a file that it has mapped
// into its memory without changing the time of the file.
func (in *inspection) alternatesList(path string) (problem string) {
	refused := func(why string) string {
		return path + " " + text.OneLine(why, 300) + ". Neither an agent in a sandbox nor a token for one project may read objects of another repository. Run git repack -a -d in the folder, and remove the file."
	}
	objects := filepath.Join(in.r.common, "objects")
	if in.inAlternate {
		return refused("leads to further objects from a list within another list")
	}
	b, err := nofollow.ReadSmall(path, maxAlternatesSize)
	if err != nil {
		return refused("cannot be read: " + err.Error())
	}
	in.state.listed = true
	for entry := range strings.SplitSeq(string(b), "\n") {
		if entry == "" || entry[0] == '#' {
			continue
		}
		dir := entry
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(objects, dir)
		}
		dir = canonical(dir)
		switch {
		case entry[0] == '"' || strings.ContainsAny(dir, "\n\x00") || !subpath.Within(dir, in.r.folder.Dir):
			return refused("leads to the objects of another repository: " + entry)
		case len(in.state.alternates) == maxAlternatesEntries:
			return refused(fmt.Sprintf("leads to more than %d other folders", maxAlternatesEntries))
		}
		in.state.alternates = append(in.state.alternates, dir)
	}
	return ""
}

// alternateFolders examines the folders that the list of alternates names.
func (in *inspection) alternateFolders() (problem string) {
	in.inAlternate = true
	for _, dir := range in.state.alternates {
		if problem := in.way(dir); problem != "" {
			return problem
		}
		if problem := in.parts(filepath.Dir(dir), filepath.Base(dir)); problem != "" {
			return problem
		}
	}
	return ""
}

// linkObjects creates the folder of objects in the private directory, with links
// to the folders in objects and a list of the alternates. Git finds all objects
// there but does not read the list of the repository.
func (p *private) linkObjects(objects string, alternates []string) error {
	own := filepath.Join(p.dir, "objects")
	if err := os.MkdirAll(filepath.Join(own, "info"), 0o700); err != nil {
		return fmt.Errorf("create a private git directory: %w", err)
	}
	if err := os.WriteFile(filepath.Join(own, "info", "alternates"), []byte(strings.Join(alternates, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("create a private git directory: %w", err)
	}
	names := []string{"pack"}
	for i := range 256 {
		names = append(names, fmt.Sprintf("%02x", i))
	}
	for _, name := range names {
		to := filepath.Join(objects, name)
		if _, err := os.Lstat(to); err != nil {
			continue
		}
		if err := os.Symlink(to, filepath.Join(own, name)); err != nil {
			return fmt.Errorf("create a private git directory: %w", err)
		}
	}
	return nil
}
