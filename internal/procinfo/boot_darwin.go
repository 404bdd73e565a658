package procinfo

import "golang.org/x/sys/unix"

func readBootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
