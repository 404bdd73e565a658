package private

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// unmapped returns the user to whom files seem to belong whose owner has no
// number in our user namespace; -1 outside of one. In a container without root
// rights the system's own folders seem to belong to that user.
var unmapped = sync.OnceValue(func() int {
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || everyUser(string(users)) {
		return -1
	}
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return -1
	}
	uid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return uid
})

// everyUser reports whether a user namespace has a number for every user.
func everyUser(uidMap string) bool {
	f := strings.Fields(uidMap)
	return len(f) == 3 && f[0] == "0" && f[2] == "4294967295"
}
