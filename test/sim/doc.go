// Package sim runs the whole core in one testing/synctest bubble with fake
// time: a session, a log on a disk that loses unsynced data, an agent, and
// clients that connect and disconnect. Meanwhile processes are killed, fenced
// and restarted, and the power fails.
//
// A seed decides everything that happens, and when. A failure prints its seed.
// To run the seed again:
//
//	go test ./test/sim -run NAME_OF_THE_TEST -sim.seed=N
//
// The seed does not decide the order of goroutines that are ready at the same
// time. If the failure does not recur at once, add -count=100.
package sim
