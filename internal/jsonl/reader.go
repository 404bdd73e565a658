// Package jsonl reads and writes JSON messages as lines of bounded length.
//
// It only splits bytes. A line is split off at '\n' before it is decoded, so a
// character that arrives in two reads is complete in its line. The caller
// decodes the lines.
package jsonl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
	"weak"
)

// DefaultMax is the default bound of a line's length, in bytes without the line
// ending.
const DefaultMax = 16 << 20

const (
	readSize = 64 << 10 // capacity of a pipe; a line within one read is not copied
	growth   = 4        // factor by which buffers grow; all buffers of a line take less than 4/3 of the largest
)

// TooLongError reports one line that exceeds the bound. The Reader skipped the
// line and continues with the next.
type TooLongError struct {
	Length int64 // in bytes, without the line ending
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("line of %d bytes is too long", e.Length)
}

// Reader returns the lines of a stream one at a time. It is not safe for
// concurrent use.
//
// Its memory is bounded: 320 KiB normally, and up to 4/3 of the bound while it
// reads or returns a longer line. The next call of Next releases the memory of
// such a line.
type Reader struct {
	src  *bufio.Reader
	max  int
	torn bool
	took int64 // bytes of the source up to the end of the last line
	err  error // sticky; the error with which the source ended

	// The current line, if it spans several reads.
	long   *buffer              // nil if the line exceeds the bound
	length int64                // bytes read so far, including the line ending
	tail   [2]byte              // the last two bytes
	spare  weak.Pointer[buffer] // the last large buffer until it is garbage-collected
}

type buffer struct{ b []byte }

// NewReader returns a Reader that skips lines of more than max bytes. A max of
// 0 means DefaultMax.
func NewReader(src io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMax
	}
	return &Reader{src: bufio.NewReaderSize(src, readSize), max: max}
}

// Next returns the next line without its line ending ("\n" or "\r\n"). It skips
// blank lines. The slice is valid until the next call.
//
// A *TooLongError reports a skipped line; the caller can continue. Any other
// error is final, and later calls return it again: io.EOF, or the error of the
// source. Bytes after the last newline are returned as a line before that
// error, and Torn reports true for this line.
func (r *Reader) Next() ([]byte, error) {
	for r.err == nil {
		line, length, err := r.read()
		r.torn = err != nil
		r.err = err
		if length > int64(r.max) {
			return nil, &TooLongError{Length: length}
		}
		if !blank(line) {
			return line, nil
		}
	}
	r.release()
	r.torn = false
	return nil, r.err
}

// Buffered reports whether Next would return a line without reading from the
// source.
func (r *Reader) Buffered() bool {
	b, _ := r.src.Peek(r.src.Buffered())
	for r.err == nil {
		n := bytes.IndexByte(b, '\n')
		if n < 0 {
			break
		}
		if !blank(b[:n]) {
			return true
		}
		b = b[n+1:]
	}
	return false
}

// Torn reports whether the last line or TooLongError that Next returned had no
// newline. The stream ended there, so the line may be incomplete.
func (r *Reader) Torn() bool { return r.torn }

// Offset returns the position in the source at which the last line that Next
// returned ends, including its line ending, in bytes.
func (r *Reader) Offset() int64 { return r.took }

// Valid reports whether line may be decoded: it must be UTF-8 without NUL.
// Decoders treat other text differently, often without an error.
func Valid(line []byte) bool {
	return bytes.IndexByte(line, 0) < 0 && utf8.Valid(line)
}

// read reads one raw line. length is correct even if line is missing because it
// is too long. An error means that the source ended; line then contains the
// bytes before the end.
func (r *Reader) read() (line []byte, length int64, err error) {
	r.release()
	for {
		part, err := r.src.ReadSlice('\n')
		r.took += int64(len(part))
		if errors.Is(err, bufio.ErrBufferFull) {
			r.add(part)
			continue
		}
		if r.length == 0 {
			line = chomp(part)
			return line, int64(len(line)), err
		}
		r.add(part)
		return chomp(r.held()), r.length - int64(ending(r.tail[:])), err
	}
}

// add appends a part of a line that spans several reads. It only counts the
// bytes if the line exceeds the bound.
func (r *Reader) add(part []byte) {
	r.length += int64(len(part))
	switch n := len(part); n {
	case 0:
		return
	case 1:
		r.tail = [2]byte{r.tail[1], part[0]}
	default:
		r.tail = [2]byte(part[n-2:])
	}
	if r.length > int64(r.max)+2 { // the bound excludes the line ending
		r.retire()
		return
	}
	if held := r.held(); cap(held) < int(r.length) {
		r.grow(int(r.length))
		r.long.b = append(r.long.b, held...)
	}
	r.long.b = append(r.long.b, part...)
}

func (r *Reader) held() []byte {
	if r.long == nil {
		return nil
	}
	return r.long.b
}

// grow sets r.long to an empty buffer for at least need bytes.
func (r *Reader) grow(need int) {
	if spare := r.spare.Value(); spare != nil && spare != r.long && cap(spare.b) >= need {
		r.long = &buffer{spare.b[:0]}
		r.spare = weak.Make(r.long)
		return
	}
	size := max(growth*readSize, growth*cap(r.held()), need)
	r.long = &buffer{make([]byte, 0, max(need, min(size, r.max+2)))}
}

// release drops the previous line and the memory of a long one.
func (r *Reader) release() {
	r.length, r.tail = 0, [2]byte{}
	if cap(r.held()) > growth*readSize {
		r.retire()
	} else if r.long != nil {
		r.long.b = r.long.b[:0]
	}
}

// retire makes the buffer available to the garbage collector, or to the next
// long line before that. Without this reuse, successive long lines would fill
// the heap faster than it is collected.
func (r *Reader) retire() {
	if r.long != nil {
		r.spare, r.long = weak.Make(r.long), nil
	}
}

func chomp(line []byte) []byte { return line[:len(line)-ending(line)] }

// ending returns the length of the line ending: "\n", "\r\n", or "\r" at the
// end of a torn line.
func ending(line []byte) int {
	rest := bytes.TrimSuffix(line, []byte{'\n'})
	rest = bytes.TrimSuffix(rest, []byte{'\r'})
	return len(line) - len(rest)
}

func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
