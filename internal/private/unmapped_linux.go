package private

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// unmapped returns the user id that the kernel shows for files whose owner does
// not exist in our user namespace, or -1 if every owner exists in it. In a
// rootless container the system's folders seem to belong to that user.
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

// everyUser reports whether a user namespace maps every user id.
func everyUser(uidMap string) bool {
	f := strings.Fields(uidMap)
	return len(f) == 3 && f[0] == "0" && f[2] == "4294967295"
}
