#!/bin/sh
# Smoke test for Linux: scripts/smoke/linux.sh [PROGRAM]
# Runs the checks of unix.sh. It also checks that a client on the unix socket
# needs no token, and that no process of the test is left.
set -eu
[ "$(uname -s)" = Linux ] || { echo "this is not Linux; see the other scripts beside this one" >&2; exit 1; }
. "$(dirname "$0")/unix.sh"

serve
curl -sS --max-time 30 --unix-socket "$home/.local/share/runnel/api.sock" http://localhost/api/me | has '"kind":"local"' "the socket needs no token"
kill -TERM "$server"
wait "$server" || fail "the server failed at its end: $(cat "$log")"
for process in /proc/[0-9]*; do
	case $(readlink "$process/exe" 2>/dev/null || true) in
	"$home"/*) fail "process ${process#/proc/} is left" ;;
	esac
done
ok "no process is left"
rm -rf "$home"
