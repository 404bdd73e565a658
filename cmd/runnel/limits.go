package main

import (
	"cmp"

	"github.com/spf13/pflag"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi"
)

// limits are the settings that bound what clients and agents may use. The error
// for an exceeded limit names the setting, and runnel_limit_reached_total
// counts it.
type limits struct {
	MaxAgents                     int `koanf:"max-agents"`
	MaxAgentsPerCredential        int `koanf:"max-agents-per-credential"`
	MaxSessions                   int `koanf:"max-sessions"`
	MaxSessionsPerCredential      int `koanf:"max-sessions-per-credential"`
	MaxNewSessionsPerCredential   int `koanf:"max-new-sessions-per-credential"`
	MaxTurnMiB                    int `koanf:"max-turn-mib"`
	MaxSessionMiB                 int `koanf:"max-session-mib"`
	MaxUploadMiBPerCredential     int `koanf:"max-upload-mib-per-credential"`
	MaxExportsPerCredential       int `koanf:"max-exports-per-credential"`
	MaxFileRequestsPerCredential  int `koanf:"max-file-requests-per-credential"`
	MaxStreams                    int `koanf:"max-streams"`
	MaxStreamsPerCredential       int `koanf:"max-streams-per-credential"`
	MaxSubscriptions              int `koanf:"max-subscriptions"`
	MaxSubscriptionsPerCredential int `koanf:"max-subscriptions-per-credential"`
	MaxSubscriptionsPerConnection int `koanf:"max-subscriptions-per-connection"`
	MaxUnreadMiB                  int `koanf:"max-unread-mib"`
	MaxArrivingMiBPerCredential   int `koanf:"max-arriving-mib-per-credential"`
	MaxFragments                  int `koanf:"max-fragments"`
	MaxConnections                int `koanf:"max-connections"`
	MaxUnauthenticatedConnections int `koanf:"max-unauthenticated-connections"`
	MaxUnauthenticatedRequests    int `koanf:"max-unauthenticated-requests"`
}

// A limitSetting describes the flag of one limit.
type limitSetting struct {
	name   string
	value  func(*limits) *int
	preset int
	help   string
}

// autoConnections is the value of max-connections that means as many
// connections as the file descriptors allow.
const autoConnections = 0

func limitSettings() []limitSetting {
	return []limitSetting{
		{"max-agents", func(l *limits) *int { return &l.MaxAgents }, 256, "at most `N` agents run at once"},
		{"max-agents-per-credential", func(l *limits) *int { return &l.MaxAgentsPerCredential }, 128, "at most `N` agents run at once in the sessions of one credential"},
		{"max-sessions", func(l *limits) *int { return &l.MaxSessions }, 4096, "at most `N` sessions are open at once, with or without an agent"},
		{"max-sessions-per-credential", func(l *limits) *int { return &l.MaxSessionsPerCredential }, 2048, "at most `N` sessions are open at once for one credential"},
		{"max-new-sessions-per-credential", func(l *limits) *int { return &l.MaxNewSessionsPerCredential }, 600, "one credential creates at most `N` sessions in a minute"},
		{"max-turn-mib", func(l *limits) *int { return &l.MaxTurnMiB }, 256, "end a turn that has stored `N` MiB of events"},
		{"max-session-mib", func(l *limits) *int { return &l.MaxSessionMiB }, 2048, "accept no more prompts in a session that has stored `N` MiB of events"},
		{"max-upload-mib-per-credential", func(l *limits) *int { return &l.MaxUploadMiBPerCredential }, 1024, "one credential uploads at most `N` MiB in a day"},
		{"max-exports-per-credential", func(l *limits) *int { return &l.MaxExportsPerCredential }, 2, "at most `N` exports of one credential run at once"},
		{"max-file-requests-per-credential", func(l *limits) *int { return &l.MaxFileRequestsPerCredential }, 1200, "one credential asks for files, folders and changes at most `N` times in a minute"},
		{"max-streams", func(l *limits) *int { return &l.MaxStreams }, 20_000, "at most `N` streams are open at once: SSE, WebSockets and harness turns"},
		{"max-streams-per-credential", func(l *limits) *int { return &l.MaxStreamsPerCredential }, 256, "at most `N` streams of one credential are open at once"},
		{"max-subscriptions", func(l *limits) *int { return &l.MaxSubscriptions }, 20_000, "at most `N` subscriptions of all WebSockets are open at once"},
		{"max-subscriptions-per-credential", func(l *limits) *int { return &l.MaxSubscriptionsPerCredential }, 2048, "at most `N` subscriptions of the WebSockets of one credential are open at once"},
		{"max-subscriptions-per-connection", func(l *limits) *int { return &l.MaxSubscriptionsPerConnection }, 256, "at most `N` subscriptions of one WebSocket are open at once"},
		{"max-unread-mib", func(l *limits) *int { return &l.MaxUnreadMiB }, 64, "hold at most `N` MiB of large messages and responses that clients have not read; beyond that, disconnect the client that has not read for longest"},
		{"max-arriving-mib-per-credential", func(l *limits) *int { return &l.MaxArrivingMiBPerCredential }, 64, "hold at most `N` MiB of request bodies of one credential that have not arrived completely"},
		{"max-fragments", func(l *limits) *int { return &l.MaxFragments }, 1000, "close a WebSocket that sends more than `N` small fragments in a second"},
		{"max-connections", func(l *limits) *int { return &l.MaxConnections }, autoConnections, "at most `N` connections to the address are open at once; 0: as many as the file descriptor limit allows, minus a reserve for the unix socket and for running turns"},
		{"max-unauthenticated-connections", func(l *limits) *int { return &l.MaxUnauthenticatedConnections }, 256, "at most `N` connections on which no credential was accepted yet are open at once"},
		{"max-unauthenticated-requests", func(l *limits) *int { return &l.MaxUnauthenticatedRequests }, 16, "at most `N` POST requests without a credential run at once on one connection"},
	}
}

func limitFlags(fl *pflag.FlagSet) {
	for _, s := range limitSettings() {
		fl.Int(s.name, s.preset, s.help)
	}
}

func (l *limits) check() error {
	for _, s := range limitSettings() {
		if n := *s.value(l); n < 1 && s.preset != autoConnections || n < 0 {
			return usage("%s: %d is too small; want 1 or more", s.name, n)
		}
	}
	return nil
}

const mib = 1 << 20

func (l *limits) ofGateway() gateway.Limits {
	return gateway.Limits{
		Agents: l.MaxAgents, AgentsPerCredential: l.MaxAgentsPerCredential,
		Sessions: l.MaxSessions, SessionsPerCredential: l.MaxSessionsPerCredential,
		TurnBytes: int64(l.MaxTurnMiB) * mib, SessionBytes: int64(l.MaxSessionMiB) * mib,
	}
}

func (l *limits) ofServer() httpapi.Limits {
	return httpapi.Limits{
		Sessions: l.MaxNewSessionsPerCredential, UploadBytes: int64(l.MaxUploadMiBPerCredential) * mib, Exports: l.MaxExportsPerCredential, FileRequests: l.MaxFileRequestsPerCredential,
		Streams: l.MaxStreams, StreamsPerCredential: l.MaxStreamsPerCredential,
		Subscriptions: l.MaxSubscriptions, SubscriptionsPerCredential: l.MaxSubscriptionsPerCredential,
		SubscriptionsPerConnection: l.MaxSubscriptionsPerConnection, Fragments: l.MaxFragments,
		UnreadBytes: int64(l.MaxUnreadMiB) * mib, ArrivingBytes: int64(l.MaxArrivingMiBPerCredential) * mib,
		UnauthenticatedRequests: l.MaxUnauthenticatedRequests,
	}
}

// Half of all file descriptors, but at most maxReserve, are kept for agents,
// the database and the socket. mostConnections is the most that autoConnections
// allows.
const (
	maxReserve      = 4096
	mostConnections = 25_000
)

// connections returns how many connections the address and the socket may each
// have at once, for a process that may open this number of descriptors. It
// fails if max-connections is too high for that number.
func (l *limits) connections(descriptors int) (address, socket int, err error) {
	reserve := min(descriptors/2, maxReserve)
	room := descriptors - reserve
	if l.MaxConnections > room {
		return 0, 0, usage("max-connections: %d connections need %d file descriptors, but this process may open only %d; raise that limit (ulimit -n), or lower the setting to %d",
			l.MaxConnections, l.MaxConnections+reserve, descriptors, room)
	}
	return cmp.Or(l.MaxConnections, min(room, mostConnections)), max(reserve/4, 1), nil
}
