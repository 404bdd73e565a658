package changes

import "strings"

// isRef reports whether git accepts name as that of a reference. If HEAD names
// another one, such as refs/heads/../x, git still writes to it, also outside of
// the repository.
func isRef(name string) bool {
	if name == "refs/heads/.invalid" {
		return true // git writes it to HEAD of repositories whose references are in tables
	}
	outside := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }
	if !strings.HasPrefix(name, "refs/") || strings.ContainsFunc(name, outside) || strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, ".") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
