package agentconn

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mention matches text that an agent could take as a reference to a file for
// the model. It matches more than any agent does.
var mention = regexp.MustCompile(`@(\S+)`)

// MentionsOutside reports whether a prompt contains an @ followed by a path
// that may lead out of dir, or more than maxMentions @ signs. An agent that
// reads mentioned files without asking must not receive such a prompt
// unchanged. Files inside dir may be mentioned.
func MentionsOutside(text, dir string) bool {
	for _, m := range mention.FindAllStringSubmatch(text, maxMentions+1) {
		if leavesDir(m[1], dir) {
			return true
		}
	}
	return strings.Count(text, "@") > maxMentions
}

// maxMentions bounds the files that a prompt may mention.
const maxMentions = 200

func leavesDir(name, dir string) bool {
	name, _, _ = strings.Cut(name, "#") // a fragment selects lines
	name = strings.TrimRight(name, ".,;:!?)]}>'`")
	if strings.ContainsAny(name, `"'\@`) || strings.HasPrefix(name, "~") || !filepath.IsLocal(name) && name != "" {
		return true
	}
	for at := ""; name != ""; {
		var part string
		part, name, _ = strings.Cut(name, "/")
		at = filepath.Join(at, part)
		info, err := os.Lstat(filepath.Join(dir, at))
		if err != nil {
			return false // the file does not exist
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}
