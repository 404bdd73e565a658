package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/conversations"
)

// checkFileEvents adds the finding about the events by which the server notices
// changes of the agents' conversations.
func checkFileEvents(ctx context.Context, d *diagnosis, c config, providers []runnel.Provider) {
	if !c.ListConversations {
		return
	}
	events, err := conversations.CheckEvents(ctx, providers)
	d.add(eventsFinding(events, err))
}

// eventsFinding returns the finding for what [conversations.CheckEvents] has
// returned.
func eventsFinding(events conversations.Events, err error) finding {
	const slow = "the server compares the files of conversations once a minute"
	f := finding{Area: "files", Name: "file events", Status: fine, Detail: fmt.Sprintf("the system reports changes of conversations (%s)", count(events.Directories, "directory", "directories"))}
	if err != nil {
		f.Status, f.Detail, f.Fix = warning, slow+", because the system does not report changes: "+err.Error(), eventsFix(err)
		return f
	}
	var missing []string
	for _, m := range events.Missing {
		why := fmt.Sprintf("%s: %s not watched", m.CLIType, count(m.Left, "directory is", "directories are"))
		if m.Err != nil {
			why += " (" + m.Err.Error() + ")"
			f.Status, f.Fix = warning, eventsFix(m.Err)
		}
		missing = append(missing, why)
	}
	if len(missing) > 0 {
		f.Detail = slow + " in addition, because not all changes are reported: " + strings.Join(missing, "; ")
	}
	return f
}

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// eventsFix returns what the user can do about an error of file events.
func eventsFix(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "raise the limit of watched directories: sysctl fs.inotify.max_user_watches=1048576 (as root; to keep it after a reboot, write it into a file in /etc/sysctl.d)"
	case errors.Is(err, syscall.EMFILE):
		return "raise the limit of programs that watch files: sysctl fs.inotify.max_user_instances=1024 (as root; to keep it after a reboot, write it into a file in /etc/sysctl.d)"
	}
	return ""
}
