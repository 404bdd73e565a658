// Package subpath compares paths by their names.
package subpath

import "path/filepath"

// Within reports whether path is root or below root. It compares the names in
// the paths and reads no file, so neither path may contain symbolic links. If
// one path is absolute and the other is not, it returns false. On Windows it
// ignores case, as filepath.Rel does.
func Within(path, root string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}
