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

// maxMention bounds the length of a path that a prompt may mention, in bytes.
const maxMention = 4096

// leavesDir reports whether the text after an @ may be a path that leads out of
// dir. Agents cut different parts off its end: a fragment after #, or all after
// the last letter or after white space that is not ASCII. So leavesDir examines
// the whole text and each beginning of it that an agent may take as the path.
func leavesDir(name, dir string) bool {
	before, _, _ := strings.Cut(name, "#") // a fragment selects lines
	before = strings.TrimRight(before, ".,;:!?)]}>'`")
	switch {
	case len(name) > maxMention, strings.ContainsAny(before, `"'\@`), strings.HasPrefix(name, "~"):
		return true
	case !filepath.IsLocal(name) && name != "", !filepath.IsLocal(before) && before != "":
		return true
	}
	for at := ""; name != ""; {
		var part string
		part, name, _ = strings.Cut(name, "/")
		if beginsWithLink(filepath.Join(dir, at), part) {
			return true
		}
		at = filepath.Join(at, part)
		if _, err := os.Lstat(filepath.Join(dir, at)); err != nil {
			return false // the file does not exist
		}
	}
	return false
}

// beginsWithLink reports whether a name, or a beginning of it before a character
// that is no letter, digit or underscore, is a symbolic link in a folder.
func beginsWithLink(folder, name string) bool {
	for i := 1; i <= len(name); i++ {
		if i < len(name) && isWord(name[i]) {
			continue
		}
		if info, err := os.Lstat(filepath.Join(folder, name[:i])); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c == '_'
}
