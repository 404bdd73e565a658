// Package rawio makes system calls that do not block without telling Go's
// scheduler.
//
// Before an ordinary system call the scheduler prepares for a call that blocks:
// in a program that was idle it wakes a thread, which sleeps and looks a few
// times. For an agent's event in an idle server, that costs more than all other
// work. A raw call avoids it, but a raw call that does block holds a processor
// and delays garbage collection. So only calls that return at once belong here.
package rawio
