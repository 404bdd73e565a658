// Package wake lets goroutines wake another one without waiting for it.
package wake

// A Signal wakes the goroutine that receives from it. Signals that were sent
// while the goroutine was busy become one: it looks at all there is to do after
// each. [New] makes a Signal.
type Signal chan struct{}

// New returns a Signal.
func New() Signal { return make(Signal, 1) }

// Send wakes the receiver, now or as soon as it receives again. It never blocks
// and may be called by any goroutine.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
