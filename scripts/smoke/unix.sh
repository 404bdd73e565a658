#!/bin/sh
# The part that linux.sh and macos.sh share. It installs a runnel program into
# an empty home directory, runs `runnel doctor`, and runs a turn of the scripted
# agent over HTTP. It kills the server in the middle of the next turn. It checks
# that a new server has the first turn, and an end of the turn that was killed.
# It needs curl and no agent. linux.sh and macos.sh remove the files of the test
# unless a check fails.
set -eu

program=${1:-$(dirname "$0")/../../bin/runnel}
home=$(mktemp -d)
server=
log=$home/server.log

fail() {
	echo "not ok: $*" >&2
	echo "the files of this run are in $home" >&2
	[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
	exit 1
}

ok() { echo "ok: $*"; }

# serve starts a server and waits until the server is ready. It sets $api to the
# address of the server.
serve() {
	: >"$log"
	runnel serve --listen 127.0.0.1:0 >"$log" 2>&1 &
	server=$!
	tries=0
	until grep -q '#c=' "$log"; do
		kill -0 "$server" 2>/dev/null || fail "the server has ended: $(cat "$log")"
		tries=$((tries + 1))
		[ "$tries" -lt 300 ] || fail "the server is not ready after 30 seconds: $(cat "$log")"
		sleep 0.1
	done
	api=$(sed -n 's/.*its API is at \(http:[^ ]*\).*/\1/p' "$log")
}

# ask METHOD PATH [BODY] sends a request and prints the body of the response.
ask() {
	if [ "$#" -eq 3 ]; then
		curl -sS --max-time 30 -X "$1" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d "$3" "$api$2"
	else
		curl -sS --max-time 30 -X "$1" -H "Authorization: Bearer $token" "$api$2"
	fi
}

has() { # has TEXT WHAT: checks that standard input contains TEXT; WHAT names the check
	cat >"$home/answer"
	grep -q -- "$1" "$home/answer" || fail "$2: $(cat "$home/answer")"
	ok "$2"
}

# Install.
mkdir "$home/bin" "$home/app"
cp "$program" "$home/bin/runnel" || fail "there is no program $program; build it with 'make build', or name one"
chmod 755 "$home/bin/runnel"
HOME=$home
PATH=$home/bin:$PATH
export HOME PATH
unset XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR RUNNEL_TOKEN RUNNEL_URL RUNNEL_DATA RUNNEL_CONFIG
runnel version | has '^runnel ' "installed"

# Doctor. Its report that no coding agent is installed is not a failure, because
# this test uses the scripted agent.
RUNNEL_LISTEN=127.0.0.1:0 runnel doctor >"$home/doctor" || true
grep -q 'problems\{0,1\},' "$home/doctor" || fail "the doctor did not finish: $(cat "$home/doctor")"
if grep '^problem' "$home/doctor" | grep -v 'no coding agent is installed'; then
	fail "the doctor finds a problem"
fi
ok "the doctor finds no problem"

# A turn over HTTP.
token=$(runnel token create smoke --scope read,send,approve)
serve
ask GET /api/health | has '"status":"ok"' "the server answers"
session=$(ask POST /api/session/create "{\"cliType\":\"script\",\"projectDir\":\"$home/app\"}" | sed -n 's/.*"sessionId":"\([^"]*\)".*/\1/p')
[ -n "$session" ] || fail "no session was made"
ok "a session was made"
ask POST /api/harness/turn "{\"sessionId\":\"$session\",\"message\":\"text\"}" | has '"exitCode":0' "a turn completes"
ask GET "/api/session/$session/items" | has 'Hello from the scripted agent' "the answer is in the history"

# Kill the server in the middle of a turn.
ask POST "/api/session/$session/send" '{"content":"hang"}' | has '"turnId"' "a turn hangs"
kill -KILL "$server"
wait "$server" 2>/dev/null || true
serve
ask GET "/api/session/$session/items" | has 'Hello from the scripted agent' "a new server has the history"
grep -q '"turn_error"' "$home/answer" || fail "the turn of the killed server has no end: $(cat "$home/answer")"
ok "the turn of the killed server has an end"
ask POST /api/harness/turn "{\"sessionId\":\"$session\",\"message\":\"text\"}" | has '"exitCode":0' "the conversation goes on"

# Stop the server.
kill -TERM "$server"
wait "$server" || fail "the server failed at its end: $(cat "$log")"
ok "the server ends"
