//go:build !unix

package pictures

// syncDir does nothing: this system cannot flush folders.
func (s *Store) syncDir(string) error { return nil }
