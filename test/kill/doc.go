// Package kill ends servers, supervisors and agents at the worst moments of
// real turns and looks at what is left: in the log, at the clients, among the
// processes.
package kill
