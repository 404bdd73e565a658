// Package recordings loads every recording of a real agent into a gateway. It
// compares the events of the live session with those that the gateway loads from
// what the agent stored, and checks that no string exceeds its bound.
package recordings
