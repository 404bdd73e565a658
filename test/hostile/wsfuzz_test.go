//go:build linux

package hostile

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/internal/testapi"
)

// TestServerWithstandsFuzzedWebSockets sends valid and invalid frames and
// messages. The server must not fail internally, must respond with messages of
// the document or a close code, and must release what it took.
func TestServerWithstandsFuzzedWebSockets(t *testing.T) {
	seed, d := fuzzSeed(t), fuzzTime(t)
	f := newFuzzer(t, false)
	f.run(seed+1<<32, warmUp(d), f.socket)
	f.fillRedactor(d)
	before := f.measure()
	f.run(seed, d, f.socket)
	t.Log(f.summary())
	f.settles(before)
}

// The opcodes of frames, and the bit of a message's final frame.
const (
	opContinue = 0x0
	opText     = 0x1
	opBinary   = 0x2
	opClose    = 0x8
	opPing     = 0x9
	opPong     = 0xa
	final      = 0x80
)

// socket opens a WebSocket, writes valid and invalid frames to it, and judges
// what the server sends until it closes the connection.
func (f *fuzzer) socket(m *maker) {
	conn, err := f.dial()
	if err != nil {
		f.fault("no connection: "+err.Error(), nil, nil)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testapi.Timeout))
	sent := f.upgrade(m)
	if _, err := conn.Write(sent); err != nil {
		f.fault("the server closed: "+err.Error(), sent, nil)
		return
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		f.fault("no answer: "+err.Error(), sent, nil)
		return
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		f.judge(m, nil, "", sent, res)
		return
	}
	read := make(chan error, 1)
	go func() { read <- f.readFrames(in) }()
	frames := f.frames(m)
	_, _ = conn.Write(frames) // the server may close in the middle of them
	if !m.odds(8) {
		_, _ = conn.Write(frame(final|opClose, []byte("\x03\xe8")))
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
	if err := <-read; err != nil {
		f.fault(err.Error(), frames, nil)
	}
}

func (f *fuzzer) upgrade(m *maker) []byte {
	key := pick(m, f.keys)
	if m.deep = !m.odds(4); m.deep {
		key = f.keys[0]
	}
	a := attempt{method: "GET", target: "/api/ws", host: f.Addr, header: key.header.Clone()}
	if a.header == nil {
		a.header = http.Header{}
	}
	if key.host != "" {
		a.host = key.host
	}
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
	} {
		if !m.deep && m.odds(10) {
			value = oneLine(m.text())
		}
		a.header.Set(name, value)
	}
	if m.odds(10) {
		a.header.Set("Sec-WebSocket-Protocol", pick(m, []string{"runnel.v1", "runnel.key.x", oneLine(m.text())}))
	}
	if m.odds(10) {
		a.header.Set("Sec-WebSocket-Extensions", pick(m, []string{"permessage-deflate", oneLine(m.text())}))
	}
	return a.bytes()
}

// frames returns several frames: messages, control frames and invalid ones.
func (f *fuzzer) frames(m *maker) []byte {
	var out []byte
	for range 1 + m.IntN(12) {
		switch m.IntN(12) {
		case 0:
			out = append(out, f.anyFrame(m)...)
		case 1:
			out = append(out, maskedFrame(m, final|byte(pick(m, []int{opPing, opPong})), nil)...)
		case 2:
			payload := []byte(m.text())
			out = append(out, maskedFrame(m, final|byte(pick(m, []int{opPing, opPong})), payload[:min(len(payload), m.IntN(127))])...)
		case 3, 4:
			out = append(out, f.fragments(m, f.message(m))...)
		default:
			out = append(out, maskedFrame(m, final|opText, f.message(m))...)
		}
	}
	if m.odds(10) {
		out = m.damage(out)
	}
	return out
}

// message returns a message of a client, valid or not.
func (f *fuzzer) message(m *maker) []byte {
	return m.body(pick(m, f.doc.resolve(f.doc.WebSocket.Client).OneOf), m.kind())
}

// fragments returns a message in fragments, sometimes with control frames in
// between.
func (f *fuzzer) fragments(m *maker, message []byte) (out []byte) {
	op := byte(opText)
	for range m.IntN(6) {
		n := m.IntN(len(message) + 1)
		out = append(out, maskedFrame(m, op, message[:n])...)
		if message, op = message[n:], opContinue; m.odds(4) {
			out = append(out, maskedFrame(m, final|opPing, []byte("between"))...)
		}
	}
	return append(out, maskedFrame(m, final|op, message)...)
}

// anyFrame returns a frame with any opcode, reserved bits, length and mask.
func (f *fuzzer) anyFrame(m *maker) []byte {
	head := byte(m.Uint32())
	payload := []byte(m.text())
	switch m.IntN(6) {
	case 0: // without a mask
		payload = payload[:min(len(payload), 100)]
		return append([]byte{head, byte(len(payload))}, payload...)
	case 1: // a longer form of the length than necessary; below, wrong lengths
		return append(binary.BigEndian.AppendUint64([]byte{head, 0x80 | 127}, uint64(len(payload))), append([]byte{1, 2, 3, 4}, payload...)...)
	case 2:
		return append(binary.BigEndian.AppendUint64([]byte{head, 0x80 | 127}, m.Uint64()), append([]byte{1, 2, 3, 4}, payload...)...)
	case 3:
		return append(binary.BigEndian.AppendUint16([]byte{head, 0x80 | 126}, uint16(m.Uint32())), append([]byte{1, 2, 3, 4}, payload...)...)
	case 4:
		return maskedFrame(m, final|opClose, append(binary.BigEndian.AppendUint16(nil, uint16(pick(m, []int{0, 999, 1000, 1001, 1005, 1006, 1015, 3000, 4999, 65535}))), payload[:min(len(payload), 200)]...))
	}
	return maskedFrame(m, head, payload)
}

// maskedFrame returns a frame with a mask, and its length in the shortest form.
func maskedFrame(m *maker, head byte, payload []byte) []byte {
	out := []byte{head}
	switch n := len(payload); {
	case n < 126:
		out = append(out, 0x80|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), uint64(n))
	}
	var mask [4]byte
	binary.BigEndian.PutUint32(mask[:], m.Uint32())
	out = append(out, mask[:]...)
	for i, b := range payload {
		out = append(out, b^mask[i%4])
	}
	return out
}

// closeCodes are the codes with which the server itself may close a WebSocket:
// in response to a close, for a fault of the client, or because the client
// reads too little.
var closeCodes = []int{1000, 1002, 1007, 1008, 1009, 4400, 4401, 4408, 4413}

// readFrames reads until the connection ends. It returns what is wrong with a
// frame; nil if nothing is.
func (f *fuzzer) readFrames(in *bufio.Reader) error {
	for {
		op, payload, err := readFrame(in)
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			return errors.New("the connection hangs")
		}
		if errors.Is(err, errBadServerFrame) {
			return err
		}
		if err != nil {
			return nil // the connection has ended
		}
		switch op {
		case opText:
			if what := f.judgeMessage(payload); what != "" {
				return fmt.Errorf("%s: %.2000q", what, payload)
			}
		case opClose:
			code := 1000
			if len(payload) >= 2 {
				code = int(binary.BigEndian.Uint16(payload))
			}
			f.answered(code)
			// The server echoes the client's own code.
			if !slices.Contains(closeCodes, code) && (code < 1000 || code == 1011 || code > 4999) {
				return fmt.Errorf("closed with %d %q", code, payload)
			}
		}
	}
}

var errBadServerFrame = errors.New("a frame of the server is wrong")

func readFrame(in *bufio.Reader) (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, err
	}
	op = head[0] &^ final
	size := uint64(head[1])
	var more [8]byte
	switch size {
	case 126:
		_, err = io.ReadFull(in, more[6:])
		size = binary.BigEndian.Uint64(more[:])
	case 127:
		_, err = io.ReadFull(in, more[:])
		size = binary.BigEndian.Uint64(more[:])
	}
	if err != nil {
		return 0, nil, err
	}
	if head[0]&final == 0 && op != opText && op != opContinue || !slices.Contains([]byte{opText, opContinue, opClose, opPing, opPong}, op) || head[1]&0x80 != 0 || size > 64<<20 || op >= opClose && size > 125 {
		return 0, nil, fmt.Errorf("%w: %x, %d bytes", errBadServerFrame, head, size)
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(in, payload)
	return op, payload, err
}

// judgeMessage returns what is wrong with a message of the server.
func (f *fuzzer) judgeMessage(data []byte) string {
	var message struct {
		Type  string
		Error json.RawMessage
	}
	if !utf8.Valid(data) {
		return "not UTF-8"
	}
	if err := json.Unmarshal(data, &message); err != nil {
		return err.Error()
	}
	f.sent.Add(1)
	if !slices.Contains(f.doc.members(f.doc.WebSocket.Server), message.Type) {
		return "a message that the document does not list"
	}
	if message.Type == "error" {
		return f.doc.problem(message.Error, 0)
	}
	return ""
}
