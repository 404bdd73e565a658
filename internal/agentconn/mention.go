package agentconn

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mention is what agents take for the name of a file that the model is to be
// shown. It is wider than any of theirs.
var mention = regexp.MustCompile(`@(\S+)`)

// MentionsOutside reports whether a prompt names, behind an @, what may be a file
// outside of the folder: an agent that reads such files unasked must not be
// shown it as such. What is in the folder is what a user would mention.
func MentionsOutside(text, dir string) bool {
	for _, m := range mention.FindAllStringSubmatch(text, maxMentions+1) {
		if leadsOut(m[1], dir) {
			return true
		}
	}
	return strings.Count(text, "@") > maxMentions
}

// maxMentions bounds how many files a prompt may mention.
const maxMentions = 200

func leadsOut(name, dir string) bool {
	name, _, _ = strings.Cut(name, "#") // lines of it
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
			return false // there is nothing to read
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}
