#!/bin/sh
# Smoke test for macOS: scripts/smoke/macos.sh [PROGRAM]
# Runs the checks of unix.sh. It also checks that no process of the test is
# left.
set -eu
[ "$(uname -s)" = Darwin ] || { echo "this is not macOS; see the other scripts beside this one" >&2; exit 1; }
. "$(dirname "$0")/unix.sh"

if ps -axo comm= | grep -q "^$home/"; then
	fail "a process is left: $(ps -axo pid=,comm= | grep "$home/")"
fi
ok "no process is left"
rm -rf "$home"
