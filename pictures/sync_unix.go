//go:build unix

package pictures

import "errors"

// syncDir flushes a folder, so that the names of new files survive a power
// loss.
func (s *Store) syncDir(name string) error {
	d, err := s.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
