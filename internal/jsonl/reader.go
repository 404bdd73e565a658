// Package jsonl reads and writes bounded lines: one message a line, whatever the other side sends.
//
// It splits bytes and nothing else. A line is cut at '\n' before anything is decoded, so a rune that
// arrives in two reads is whole again in its line. What is inside a line is the caller's business.
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

// DefaultMax is the longest line, in bytes without its line ending, that a Reader delivers by default.
const DefaultMax = 16 << 20

const (
	readSize = 64 << 10 // what a pipe holds; a line within one read is not copied
	growth   = 4        // all buffers of one line together stay below 4/3 of the largest
)

// TooLongError stands for one line over the bound. The line was skipped; reading continues with the next.
type TooLongError struct {
	Length int64 // bytes, without the line ending
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("line of %d bytes is too long", e.Length)
}

// Reader delivers the lines of a stream one at a time. It belongs to one goroutine.
//
// Its memory is bounded: 320 KiB at rest, and while a longer line is being read or used up to 4/3 of
// the bound, which is left to the collector with the next call of Next.
type Reader struct {
	src  *bufio.Reader
	max  int
	torn bool
	took int64 // bytes of the source, up to the end of the line read last
	err  error // sticky; what the source ended with

	// The line being read, if it spans several reads.
	long   *buffer              // nil once the line is over the bound
	length int64                // bytes seen of the raw line, line ending included
	tail   [2]byte              // its last two
	spare  weak.Pointer[buffer] // the last large buffer, for as long as the collector has not taken it
}

type buffer struct{ b []byte }

// NewReader returns a Reader of src that skips lines of more than max bytes. A max of 0 means DefaultMax.
func NewReader(src io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMax
	}
	return &Reader{src: bufio.NewReaderSize(src, readSize), max: max}
}

// Next returns the next line without its line ending ("\n" or "\r\n"). Blank lines are passed over.
// The slice is reused: it is valid until the next call.
//
// A *TooLongError reports a skipped line and is not the end. Any other error is: io.EOF, or whatever the
// source failed with, and it comes again from every later call. Bytes after the last newline are delivered
// before it as a line of their own, which Torn then marks.
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

// Torn reports whether the line (or the TooLongError) that Next returned last had no newline: the stream
// ended within it, so it may be half a message.
func (r *Reader) Torn() bool { return r.torn }

// Offset returns where in the source the line that Next returned last ends, its line ending included, in bytes from the
// beginning.
func (r *Reader) Offset() int64 { return r.took }

// Valid reports whether line is text that may be decoded: UTF-8 without NUL.
// Decoders differ in what they make of the rest, often silently.
func Valid(line []byte) bool {
	return bytes.IndexByte(line, 0) < 0 && utf8.Valid(line)
}

// read takes one raw line off the source. length is right even where line, being too long, is missing.
// An error means that the source ended, with line holding what came before.
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

// add appends a part of a line that spans several reads, or only counts it once the line is over the bound.
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
	if r.length > int64(r.max)+2 { // 2: the line ending is not counted
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

// grow makes r.long an empty buffer for at least need bytes.
func (r *Reader) grow(need int) {
	if spare := r.spare.Value(); spare != nil && spare != r.long && cap(spare.b) >= need {
		r.long = &buffer{spare.b[:0]}
		r.spare = weak.Make(r.long)
		return
	}
	size := max(growth*readSize, growth*cap(r.held()), need)
	r.long = &buffer{make([]byte, 0, max(need, min(size, r.max+2)))}
}

// release forgets the line read before, and with it the memory that an unusual one took.
func (r *Reader) release() {
	r.length, r.tail = 0, [2]byte{}
	if cap(r.held()) > growth*readSize {
		r.retire()
	} else if r.long != nil {
		r.long.b = r.long.b[:0]
	}
}

// retire leaves the buffer to the collector, or to the next long line if that comes first:
// without that, long lines in a row would fill the heap faster than it is collected.
func (r *Reader) retire() {
	if r.long != nil {
		r.spare, r.long = weak.Make(r.long), nil
	}
}

func chomp(line []byte) []byte { return line[:len(line)-ending(line)] }

// ending returns the length of the line ending: "\n", "\r\n", or the half of one that a torn line has.
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
