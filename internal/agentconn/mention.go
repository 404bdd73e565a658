package agentconn

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// MentionsOutside reports whether a prompt contains an @ followed by a path
// that may lead out of dir, or has too many @ signs or paths to examine. An
// agent that reads mentioned files without asking must not receive such a prompt
// unchanged. Files inside dir may be mentioned.
//
// It finds more mentions than any agent does: it examines the text after every
// @, because agents disagree about what may stand before one.
func MentionsOutside(text, dir string) bool {
	if strings.Count(text, "@") > maxMentions {
		return true
	}
	m := mentions{dir: dir, lookups: maxLookups}
	for {
		_, after, found := strings.Cut(text, "@")
		if !found {
			return false
		}
		text = after
		if end := strings.IndexAny(after, " \t\n\v\f\r"); end >= 0 {
			after = after[:end]
		}
		if m.leave(after) {
			return true
		}
	}
}

// maxMentions bounds the files that a prompt may mention, and maxLookups the
// paths that MentionsOutside looks for in the file system. A long path may need
// 0.1 ms.
const (
	maxMentions = 200
	maxLookups  = 10_000
)

// maxMention bounds the length of a path that a prompt may mention, and maxName
// the length of one of its elements, in bytes. Longer elements do not exist:
// some systems count 255 characters of at most 3 bytes each.
const (
	maxMention = 4096
	maxName    = 3 * 255
)

// mentions examines the paths that a prompt mentions.
type mentions struct {
	dir     string
	lookups int // number of further paths that may be looked for
}

// leave reports whether the text after an @ may be a path that leads out of dir.
// Agents cut different parts off its end: a fragment after #, or all after the
// last letter or after white space that is not ASCII. So leave examines the
// whole text and each beginning of it that an agent may take as the path.
func (m *mentions) leave(name string) bool {
	switch {
	case name == "":
		return false
	case len(name) > maxMention, strings.ContainsAny(name, `"'\@`), strings.HasPrefix(name, "~"), !filepath.IsLocal(name):
		return true
	}
	for at := m.dir; name != ""; {
		var part string
		part, name, _ = strings.Cut(name, "/")
		if strings.HasPrefix(part, "..") || m.beginsWithLink(at, part) {
			return true
		}
		at = filepath.Join(at, part)
	}
	return false
}

// beginsWithLink reports whether a name, or a beginning of it before a character
// that is no letter, digit or underscore, may be a symbolic link in a folder.
func (m *mentions) beginsWithLink(folder, name string) bool {
	for i := 1; i <= min(len(name), maxName); i++ {
		if i < len(name) && isWord(name[i]) {
			continue
		}
		if m.lookups--; m.lookups < 0 {
			return true
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
