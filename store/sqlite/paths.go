package sqlite

import "fmt"

// paths are the paths of the writer's files: the database, its write-ahead log and the
// journal. The writer keeps them open, so it would continue to write into files
// that no later process opens if they were moved or replaced.
type paths struct {
	dir   place // the directory, with all entries of files
	files []place
}

// add looks up a file that exists.
func (ps *paths) add(path string) error {
	p, err := placeOf(path)
	if err != nil {
		return err
	}
	if _, err := p.same(); err != nil {
		return err
	}
	ps.files = append(ps.files, p)
	ps.dir.forget()
	return nil
}

// check returns an error if the path of a file does not lead to the file any
// more. Most calls look up only the directory: as long as it is the same and
// has not changed, neither have its entries.
func (ps *paths) check() error {
	switch same, err := ps.dir.same(); {
	case err != nil:
		return fmt.Errorf("%w: %w", errMoved, err)
	case !same:
		return errMoved
	case ps.dir.unchanged():
		return nil
	}
	for i := range ps.files {
		switch same, err := ps.files[i].same(); {
		case err != nil:
			return fmt.Errorf("%w: %w", errMoved, err)
		case !same:
			return errMoved
		}
	}
	ps.dir.remember()
	return nil
}
