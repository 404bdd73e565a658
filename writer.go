package runnel

import (
	"context"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// WriterSource is how the writer of a conversation was found.
type WriterSource string

// The sources.
const (
	WriterRegistry    WriterSource = "registry"    // the agent's own list of its running processes
	WriterDescriptors WriterSource = "descriptors" // a process holds the agent's lock of the conversation
	WriterRecent      WriterSource = "recent"      // the conversation's file was changed a moment ago
)

// WriterRecency is how long after its last change a conversation counts as in
// use, if it cannot be known which processes have it open.
const WriterRecency = 30 * time.Second

// A Writer is a process outside of a session that has a stored conversation
// open. The agents' files that name it are not trustworthy: a Writer proves
// nothing but that the conversation may change.
type Writer struct {
	AgentSessionID string       `json:"-"`
	PID            int          `json:"pid,omitempty" doc:"Id of the process. Absent with the source recent."`
	Source         WriterSource `json:"source" enum:"registry,descriptors,recent" doc:"How the writer is known. registry: the agent lists its running processes. descriptors: the process holds the lock of the conversation. recent: the conversation's file was changed in the last 30 seconds."`

	Start   string `json:"-"` // start time of the process; with PID, it identifies the process
	Session string `json:"-"` // session whose agent started the process; "" if none did
	Own     bool   `json:"-"` // this process started it, without a session
	Ends    bool   `json:"-"` // it is ending, or belongs to an agent whose supervisor was killed
}

// A WriterFinder knows which processes have the agent's stored conversations
// open. Its methods are fast and start no process.
type WriterFinder interface {
	// Writers returns the running processes that have a conversation open.
	// known is false if this system, or this version of the agent, does not
	// tell.
	Writers(ctx context.Context) (list []Writer, known bool)

	// Written returns when a conversation's file was last changed; zero if
	// there is no file. It may also return zero for a change by an agent that
	// this process started.
	Written(ctx context.Context, ref Conversation) time.Time
}

// A WriterStopper can ask the process that holds the agent's lock of a
// conversation to exit. It fails if the process does not exit. It never stops a
// process that only a file names.
type WriterStopper interface {
	StopWriter(ctx context.Context, w Writer) error
}

// A Follower can read a stored conversation while another process writes it.
type Follower interface {
	Follow(ctx context.Context, ref Conversation) (Following, error)
}

// A Following reads a stored conversation that another process writes. It is
// not safe for concurrent use.
type Following interface {
	// Next returns the events that were stored since the last call. The first
	// call returns the whole conversation. A turn that still runs has no
	// terminal event. An event has the id that History gives it. Exceptions: if
	// the agent stores an item after others that started later, or removes one,
	// the items that were returned keep their ids.
	Next(ctx context.Context) ([]event.Event, error)

	// Finish returns the events that History adds at the end of the
	// conversation. It is called once, after the last Next.
	Finish() []event.Event

	// Close releases what the Following holds. It may be called more than
	// once.
	Close()
}
