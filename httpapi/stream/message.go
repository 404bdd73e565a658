package stream

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel"
)

// messageTime is how long a message of a client may take to arrive. It is the
// same as for the body of a request.
const messageTime = 30 * time.Second

// read handles the client's messages one by one. It returns the reason why it
// stopped.
func (k *socket) read() error {
	for {
		typ, r, err := k.conn.Reader(context.Background())  // unblocked by Close
		if err != nil && websocket.CloseStatus(err) == -1 { // the client broke the protocol, or disconnected
			return errors.Join(errProtocol, err)
		}
		if err != nil {
			return err
		}
		if typ != websocket.MessageText {
			return errBadFrame
		}
		data, err := k.message(r)
		if err != nil {
			return err
		}
		if err := k.handle(data); err != nil {
			return err
		}
	}
}

// message reads one message. While it arrives, it counts as an arriving body of
// the client's credential. An error closes the connection.
func (k *socket) message(r io.Reader) ([]byte, error) {
	late := time.AfterFunc(messageTime, func() { k.end(errLate) })
	defer late.Stop()
	r, done := k.s.cfg.Arriving(k.id.ID, io.LimitReader(r, maxMessage+1))
	defer done()
	data, err := io.ReadAll(r)
	if limited, ok := errors.AsType[*runnel.Error](err); ok {
		return nil, errors.Join(k.refuse(Message{}, limited), errArriving)
	}
	if err == nil && len(data) > maxMessage {
		err = errTooLarge
	}
	return data, err
}
