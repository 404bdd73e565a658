// Package wake lets a goroutine wake another one without blocking.
package wake

// A Signal wakes the goroutine that receives from it. Signals sent while that
// goroutine is busy are merged into one, so after each signal it must handle
// all pending work. Create a Signal with [New].
type Signal chan struct{}

// New returns a Signal.
func New() Signal { return make(Signal, 1) }

// Send wakes the receiver, now or as soon as it receives again. It never blocks
// and is safe for concurrent use.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
