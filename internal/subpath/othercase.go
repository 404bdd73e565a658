package subpath

import (
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// InOtherCase returns path with the small letters of its last name as capital
// letters, and the other way round. It reports whether both name the same file,
// as they do if the file system ignores the case of names.
func InOtherCase(path string) (other string, same bool) {
	dir, name := filepath.Split(path)
	other = dir + strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, name)
	if other == path {
		return other, false
	}
	is, err := os.Lstat(path)
	if err != nil {
		return other, false
	}
	also, err := os.Lstat(other)
	return other, err == nil && os.SameFile(is, also)
}
