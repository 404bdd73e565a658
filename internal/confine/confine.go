// Package confine restricts processes to some files with Landlock, a feature of
// the Linux kernel. A restriction holds for a process and for every process that
// it starts, and none of them can lift it.
//
// For an agent whose sandbox limits only files, the supervisor starts a process
// that restricts itself and then executes the agent; see [Main]. The supervisor
// stays unrestricted. Other programs are started by
// a restricted thread; see [Start].
package confine

import "strconv"

// Command is the first argument of a process that confines itself.
const Command = "__confine"

// MinVersion is the oldest version of Landlock that is enough. Older versions
// let a program empty files that it may not write.
const MinVersion = 3

// Access is what programs may do below a path.
type Access string

// The kinds of access.
const (
	Read  Access = "read"  // read and execute
	Write Access = "write" // the same, and change, create and remove
)

// A Rule allows access to a file, or to a directory and everything in it. The
// path has no symbolic links. If Ino is not 0, the path must be the file or
// directory with these numbers: another sandbox can replace a path by another
// one while this one is being made. If Ino is 0, a path that does not exist is
// skipped.
type Rule struct {
	Access   Access
	Path     string
	Dev, Ino uint64
}

// Args returns the arguments of a process that allows only what the rules allow,
// and then becomes a program.
func Args(rules []Rule, program string, args []string) []string {
	out := []string{Command, strconv.Itoa(len(rules))}
	for _, r := range rules {
		out = append(out, string(r.Access), r.Path, strconv.FormatUint(r.Dev, 10), strconv.FormatUint(r.Ino, 10))
	}
	return append(append(out, program), args...)
}

// parse is the reverse of Args, without Command.
func parse(args []string) (rules []Rule, program []string, ok bool) {
	next := func() (arg string) {
		if ok = ok && len(args) > 0; ok {
			arg, args = args[0], args[1:]
		}
		return arg
	}
	number := func() uint64 {
		n, err := strconv.ParseUint(next(), 10, 64)
		ok = ok && err == nil
		return n
	}
	ok = true
	for n := number(); n > 0 && ok; n-- {
		r := Rule{Access(next()), next(), number(), number()}
		ok = ok && (r.Access == Read || r.Access == Write)
		rules = append(rules, r)
	}
	return rules, args, ok && len(args) > 0
}
