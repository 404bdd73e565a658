package auth

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// subordinate reports whether our user may run processes as uid with newuidmap.
// It also returns true if the system's list of such users exists but cannot be
// read.
func subordinate(uid int) bool {
	f, err := os.Open("/etc/subuid")
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	names := []string{strconv.Itoa(os.Geteuid())}
	if u, err := user.LookupId(names[0]); err == nil {
		names = append(names, u.Username)
	}
	return slices.ContainsFunc(readSubordinates(f, names), func(r uidRange) bool {
		return uid >= r.first && uid-r.first < r.count
	})
}

type uidRange struct{ first, count int }

// readSubordinates reads lines in the format of subuid(5), such as
// "name:100000:65536". It returns the ranges whose owner has one of the names.
func readSubordinates(r io.Reader, names []string) (ranges []uidRange) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(f) != 3 || !slices.Contains(names, f[0]) {
			continue
		}
		first, err1 := strconv.Atoi(f[1])
		count, err2 := strconv.Atoi(f[2])
		if err1 == nil && err2 == nil {
			ranges = append(ranges, uidRange{first, count})
		}
	}
	return ranges
}
