package attach

import (
	"bytes"
	"encoding/binary"
)

// maxScans is the maximum number of scans of a JPEG. A progressive JPEG has
// about ten. A browser draws the whole image for each, and a scan that changes
// nothing has 27 bytes.
const maxScans = 100

// scans returns the number of scans of a JPEG.
func scans(data []byte) (n int) {
	for {
		i := bytes.IndexByte(data, 0xff)
		if i < 0 || i+3 >= len(data) {
			return n
		}
		marker := data[i+1]
		data = data[i+1:]
		switch {
		case marker == 0xff: // a fill byte
			continue
		case marker == 0xd9: // the end of the image
			return n
		case marker <= 0x01 || marker >= 0xd0 && marker <= 0xd8: // nothing belongs to it
			continue
		case marker == 0xda:
			n++
		}
		data = data[min(1+int(binary.BigEndian.Uint16(data[1:])), len(data)):]
	}
}

// firstFrame returns the right and the lower edge of the first frame of a GIF
// with a valid header, and zero if it has no frame. Browsers give an image the
// size of its first frame if that is larger than the logical screen.
func firstFrame(data []byte) (right, bottom int) {
	const header = 13 // with the logical screen descriptor
	flags := data[10]
	at := header
	if flags&0x80 != 0 {
		at += 3 << (flags&7 + 1) // colours
	}
	for at < len(data) {
		switch data[at] {
		case 0x2c:
			if at+9 > len(data) {
				return 0, 0
			}
			side := func(i int) int { return int(binary.LittleEndian.Uint16(data[at+i:])) }
			return side(1) + side(5), side(3) + side(7)
		case 0x21: // an extension: its label, and blocks of data up to an empty one
			at += 2
			for at < len(data) && data[at] != 0 {
				at += 1 + int(data[at])
			}
			at++
		default:
			at++ // decoders skip other bytes
		}
	}
	return 0, 0
}
