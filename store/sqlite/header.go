package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/runnel-dev/runnel"
)

// The parts of SQLite's file format that are read here: the database header
// with two of its fields, and the header and frames of the write-ahead log. See
// "Database File Format" in SQLite's documentation, sections 1.3 and 4.1.
const (
	magic         = "SQLite format 3\x00"
	userVersionAt = 60
	applicationAt = 68
	headerBytes   = 72 // length of the database header up to and including both fields

	logHeaderBytes   = 32
	logPageSizeAt    = 8
	logSaltAt        = 16 // 8 bytes; a frame is current if its salt is the same
	frameHeaderBytes = 24
	frameSaltAt      = 8
	maxPageBytes     = 1 << 16
)

// checkHeader rejects a file that is not a runnel database or has a newer
// schema version, before SQLite opens it. The version in the header may be
// older than the version in the write-ahead log, so migrate checks again.
func checkHeader(path string, list []string) error {
	if info, err := os.Stat(path + "-journal"); err == nil && info.Size() > 0 {
		return nil // an interrupted transaction of a new database: SQLite rolls it back on open
	}
	head, err := readHeader(path)
	if err != nil {
		return err
	}
	if len(head) == 0 { // a new file that SQLite has not written yet
		return nil
	}
	refusal := checkHead(path, head, list)
	if refusal == nil {
		return nil
	}
	// A power loss may have interrupted a checkpoint while it copied the first
	// page from the write-ahead log. SQLite then uses the page in the log, and
	// so does this check.
	if head, ok := loggedHeader(path + "-wal"); ok && checkHead(path, head, list) == nil {
		return nil
	}
	return refusal
}

// checkHead rejects a database by its first bytes.
func checkHead(path string, head []byte, list []string) error {
	if len(head) < headerBytes || string(head[:len(magic)]) != magic {
		return foreignFile(path)
	}
	return checkVersion(path, int(binary.BigEndian.Uint32(head[userVersionAt:])), binary.BigEndian.Uint32(head[applicationAt:]), list)
}

// readHeader returns the first headerBytes of a file, or fewer if the file is
// shorter.
func readHeader(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, headerBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, runnel.Fail(runnel.StoreUnavailable, "cannot read "+filepath.Base(path)+": the disk reported an error", err)
	}
	return head[:n], nil
}

// loggedHeader returns the first bytes of the newest copy of page 1 in a
// write-ahead log. ok is false if the log has no copy of it.
func loggedHeader(path string) (head []byte, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	header := make([]byte, logHeaderBytes)
	if _, err := io.ReadFull(f, header); err != nil {
		return nil, false
	}
	size := int64(binary.BigEndian.Uint32(header[logPageSizeAt:]))
	if size < 512 || size > maxPageBytes {
		return nil, false
	}
	salt := header[logSaltAt : logSaltAt+8]
	frame := make([]byte, frameHeaderBytes+headerBytes)
	for at := int64(logHeaderBytes); ; at += frameHeaderBytes + size {
		if _, err := f.ReadAt(frame, at); err != nil || !bytes.Equal(frame[frameSaltAt:frameSaltAt+8], salt) {
			return head, ok // end of the current frames
		}
		if binary.BigEndian.Uint32(frame) == 1 {
			head, ok = bytes.Clone(frame[frameHeaderBytes:]), true
		}
	}
}
