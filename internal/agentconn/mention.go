package agentconn

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mention matches what agents take for the name of a file that the model is to
// see. It matches more than any agent does.
var mention = regexp.MustCompile(`@(\S+)`)

// MentionsOutside reports whether a prompt has an @ followed by what may be a
// file outside of dir. An agent that reads mentioned files unasked must not get
// such a prompt as it is. Files in dir are what users mention.
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
			return false // the file does not exist
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}
