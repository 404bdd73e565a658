package supervisor

import (
	"io"
	"net"
)

// output is the server's end of an agent's output. Read ends with io.EOF, never
// with another error, after everything that the agent has printed.
type output interface {
	io.ReadCloser

	// begin notes that a turn begins at a position in the output. It returns
	// the position before which the spool may lack output; see spool.begin.
	begin(after int64) (lost int64)

	// cut ends the output after what the agent has printed so far.
	cut()

	// release closes all descriptors. The caller of Read still receives what
	// the agent has printed. The agent or its supervisor has ended.
	release()
}

// relayed is an output that the supervisor relays.
type relayed struct{ *net.UnixConn }

func (relayed) begin(int64) int64 { return 0 }
func (r relayed) cut()            { _ = r.CloseRead() }
func (r relayed) release()        { r.Close() }

func (r relayed) Read(p []byte) (int, error) {
	n, err := r.UnixConn.Read(p)
	if n == 0 && err != nil {
		return 0, io.EOF
	}
	return n, nil
}

// openOutput returns the output that files belong to. With keep this process
// keeps it. A server that takes over passes the position at which the turn
// began and the one at which the output continues; the server that starts an
// agent passes zeros.
func openOutput(files descriptors, keep bool, begun, end int64) (output, error) {
	conn, err := inherited(uintptr(files.take(outputFile)))
	if err != nil {
		return nil, err
	}
	if !keep {
		return relayed{conn}, nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		conn.Close()
		return nil, err
	}
	state, err := mapState(files[notesFile])
	if err != nil {
		conn.Close()
		return nil, err
	}
	taken(state).Store(end)
	return newKept(conn, raw, files, state, begun, end), nil
}
