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

// The parts of SQLite's file format that are read here: the header of the
// database and its fields, and the header and frames of the write-ahead log.
// See "Database File Format" in SQLite's documentation, sections 1.3 and 4.1.
const (
	magic         = "SQLite format 3\x00"
	userVersionAt = 60
	applicationAt = 68
	headerBytes   = 72 // of the database's header, up to both fields

	logHeaderBytes   = 32
	logPageSizeAt    = 8
	logSaltAt        = 16 // 8 bytes; a frame is current if it has the same
	frameHeaderBytes = 24
	frameSaltAt      = 8
	maxPageBytes     = 1 << 16
)

// checkHeader refuses a file that is not ours or is newer than we are, without
// having SQLite touch it. The schema version in the header may be older than
// the one in the write-ahead log; migrate looks again.
func checkHeader(path string, list []string) error {
	if info, err := os.Stat(path + "-journal"); err == nil && info.Size() > 0 {
		return nil // power was lost while it was made: what is in it will be undone first
	}
	head, err := readHeader(path)
	if err != nil {
		return err
	}
	if len(head) == 0 { // made by us a moment ago, or before a crash
		return nil
	}
	refusal := checkHead(path, head, list)
	if refusal == nil {
		return nil
	}
	// The power may have failed while a checkpoint copied the first page from the
	// write-ahead log. Then the log's page counts, as it does for SQLite.
	if head, ok := loggedHeader(path + "-wal"); ok && checkHead(path, head, list) == nil {
		return nil
	}
	return refusal
}

// checkHead refuses the beginning of a database.
func checkHead(path string, head []byte, list []string) error {
	if len(head) < headerBytes || string(head[:len(magic)]) != magic {
		return foreignFile(path)
	}
	return checkVersion(path, int(binary.BigEndian.Uint32(head[userVersionAt:])), binary.BigEndian.Uint32(head[applicationAt:]), list)
}

// readHeader returns the first bytes of a file; fewer if the file is shorter.
func readHeader(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, headerBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, runnel.Fail(runnel.StoreUnavailable, "cannot read "+filepath.Base(path)+": the disk reports an error", err)
	}
	return head[:n], nil
}

// loggedHeader returns the beginning of the newest first page in a write-ahead
// log. It reports false if the log has none.
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
			return head, ok // the log ends here
		}
		if binary.BigEndian.Uint32(frame) == 1 {
			head, ok = bytes.Clone(frame[frameHeaderBytes:]), true
		}
	}
}
