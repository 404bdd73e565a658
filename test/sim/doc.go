// Package sim runs the whole core in one bubble of fake time: a session, a log
// over a disk that loses what was not synced, an agent, and clients that come
// and go, while processes are killed, fenced and restarted and power fails.
//
// A seed decides everything that happens, and when. It is printed with a
// failure and run again with
//
//	go test ./test/sim -run K01 -sim.seed=N
//
// Goroutines that are ready at the same moment run in an order that no seed
// decides: a failure that does not come back at once does with -sim.runs=100.
package sim
