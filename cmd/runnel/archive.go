package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/nofollow"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/pictures"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// Names in a backup archive. An upload is the file uploads/ID/NAME. For the
// files of pictures see package pictures.
const (
	databaseName = "runnel.db"
	uploadsName  = "uploads"
	auditName    = "audit" // folder of the audit log, in the data directory too
)

// archived reports whether a backup of this name is an archive. Any other name
// means a copy of the database alone.
func archived(file string) bool { return strings.EqualFold(filepath.Ext(file), ".tar") }

// archive writes a backup of the data directory into a new file: the database,
// the uploads, the pictures and the audit log. A failed backup leaves no file.
func archive(ctx context.Context, data, file string) (err error) {
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("%s already exists; choose another name", termtext.Clean(file))
	}
	work, err := os.MkdirTemp(filepath.Dir(file), ".runnel-backup-*") // mode 0700
	if err != nil {
		return fmt.Errorf("the backup %s was not written: %w", termtext.Clean(file), err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	// The database comes first: an upload that it names is never newer.
	db := filepath.Join(work, databaseName)
	if err := sqlite.Backup(ctx, data, db); err != nil {
		return err
	}
	part := filepath.Join(work, "part")
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	if err = addFile(w, db, databaseName); err == nil {
		err = addUploads(ctx, w, filepath.Join(data, uploadsName))
	}
	if err == nil {
		err = addPictures(ctx, w, filepath.Join(data, gateway.PicturesFolder))
	}
	if err == nil {
		err = addAudit(w, filepath.Join(data, auditName))
	}
	if err == nil {
		if err = addFile(w, filepath.Join(data, gateway.HiddenFile), gateway.HiddenFile); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err = errors.Join(err, w.Close(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("the backup %s was not written: %w", termtext.Clean(file), err)
	}
	return os.Rename(part, file)
}

// addFile adds a file. It follows no link in the place of the file, and waits for
// no pipe: an agent can write in the data directory.
func addFile(w *tar.Writer, from, name string) error {
	dir, err := nofollow.Root(filepath.Dir(from))
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := nofollow.Open(dir, filepath.Base(from))
	if _, missing := dir.Lstat(filepath.Base(from)); err != nil && missing != nil {
		return missing
	}
	if err != nil {
		return fmt.Errorf("%s cannot be copied: %w", termtext.Clean(from), err)
	}
	defer f.Close()
	return addOpen(w, f, name)
}

// addOpen adds an open file. Its size must not change meanwhile.
func addOpen(w *tar.Writer, f fs.File, name string) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return nil
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: st.Size(), Mode: 0o600, ModTime: st.ModTime(), Format: tar.FormatPAX}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(w, f, st.Size())
	return err
}

// addUploads adds the complete uploads. One that the server removes meanwhile
// is left out. A link in the folder is never followed out of it.
func addUploads(ctx context.Context, w *tar.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	folders, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if !uploadID(folder.Name()) {
			continue
		}
		files, err := fs.ReadDir(root.FS(), folder.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, file := range files {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !file.Type().IsRegular() {
				continue
			}
			f, err := root.Open(filepath.Join(folder.Name(), file.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := errors.Join(addOpen(w, f, path.Join(uploadsName, folder.Name(), file.Name())), f.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPictures adds the images of prompts. One that the server removes meanwhile
// is left out.
func addPictures(ctx context.Context, w *tar.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return pictures.Files(root, func(name string) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f, err := nofollow.Open(root, name)
		if errors.Is(err, nofollow.ErrUnreadable) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(addOpen(w, f, path.Join(gateway.PicturesFolder, name)), f.Close())
	})
}

// addAudit adds the audit log. A file that the server removes meanwhile is left
// out. The last file may end with a part of an entry, which a server removes.
func addAudit(w *tar.Writer, dir string) error {
	names, err := audit.Files(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := addFile(w, filepath.Join(dir, name), path.Join(auditName, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func uploadID(name string) bool {
	id, err := uuid.Parse(name)
	return err == nil && id.String() == name
}

// restore makes a data directory from a backup: an archive, or a copy of the
// database. dir must be missing or empty. A failed restoration leaves no
// directory.
func restore(ctx context.Context, file, dir string) (err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty; choose a new directory with --data, or move its content away", termtext.Clean(dir))
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), ".runnel-restore-*") // mode 0700
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(work))
		}
	}()
	root, err := os.OpenRoot(work)
	if err != nil {
		return err
	}
	err = errors.Join(unpack(ctx, root, file), root.Close())
	if err != nil {
		return fmt.Errorf("restore %s: %w", termtext.Clean(file), err)
	}
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: work, CompactAfter: -1}) // checks and upgrades the database
	if err != nil {
		return err
	}
	if err := st.Close(); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // an empty directory
		return err
	}
	return os.Rename(work, dir)
}

// unpack writes the content of a backup below root.
func unpack(ctx context.Context, root *os.Root, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if !archived(file) {
		return unpackFile(root, databaseName, f, time.Time{})
	}
	found := false
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		parts := strings.Split(h.Name, "/")
		upload := len(parts) == 3 && parts[0] == uploadsName && uploadID(parts[1]) && filepath.IsLocal(parts[2]) && parts[2] == filepath.Base(parts[2])
		below, picture := strings.CutPrefix(h.Name, gateway.PicturesFolder+"/")
		picture = picture && pictures.IsFile(below)
		entries := len(parts) == 2 && parts[0] == auditName && audit.IsFile(parts[1])
		if h.Typeflag != tar.TypeReg || h.Name != databaseName && h.Name != gateway.HiddenFile && !upload && !picture && !entries {
			return fmt.Errorf("it contains %s, which no backup of runnel contains", termtext.Clean(h.Name))
		}
		if upload {
			if err := root.MkdirAll(filepath.Join(parts[0], parts[1]), 0o700); err != nil {
				return err
			}
		}
		if picture || entries {
			if err := root.MkdirAll(filepath.Dir(filepath.FromSlash(h.Name)), 0o700); err != nil {
				return err
			}
		}
		if err := unpackFile(root, filepath.Join(parts...), r, h.ModTime); err != nil {
			return err
		}
		if found = found || h.Name == databaseName; upload { // the server removes uploads by the age of their folder
			if err := root.Chtimes(filepath.Join(parts[0], parts[1]), h.ModTime, h.ModTime); err != nil {
				return err
			}
		}
	}
	if !found {
		return errors.New("it contains no database; it is no backup of runnel")
	}
	return nil
}

// unpackFile writes a new file. It fails if the file exists. at is its
// modification time; zero: now.
func unpackFile(root *os.Root, name string, r io.Reader, at time.Time) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil && !at.IsZero() {
		err = root.Chtimes(name, at, at)
	}
	return err
}
