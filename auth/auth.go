// Package auth keeps credentials: who may call the gateway, and what for.
//
// A credential is a random secret of which only the SHA-256 is kept. Its scopes
// belong to the record on the server: no request can widen them.
package auth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/store"
)

// A Scope is something a credential allows.
type Scope string

// The scopes. They do not include one another.
const (
	Read    Scope = "read"    // see sessions and their events
	Send    Scope = "send"    // create, prompt, cancel and end sessions
	Approve Scope = "approve" // answer what an agent asks
	Admin   Scope = "admin"   // manage credentials
)

// All returns every scope.
func All() []Scope { return []Scope{Read, Send, Approve, Admin} }

// Why a credential is refused. All of them look the same from outside.
var (
	ErrInvalid   = errors.New("auth: no such credential")
	ErrThrottled = errors.New("auth: too many failed attempts")
	ErrEnded     = errors.New("auth: the credential was revoked or has expired")

	// ErrMakerEnded means that a credential ended while it made another.
	ErrMakerEnded = errors.New("the credential that makes this one was revoked or has expired")

	ErrBoundAdmin = errors.New("a credential for one project cannot have the scope admin")
)

// How long things live.
const (
	CodeLife    = time.Minute    // a one-time login code
	BrowserLife = 12 * time.Hour // a browser's credential, from its last use
	recheck     = time.Minute    // how long a verdict is believed, and how often open streams are judged again
	renewEvery  = time.Hour      // how often use is recorded
)

// Tokens is the part of a [store.Catalogue] that keeps credentials.
type Tokens interface {
	PutToken(ctx context.Context, t store.Token) error
	TokenByHash(ctx context.Context, hash [32]byte) (store.Token, error)
	Tokens(ctx context.Context, kind store.TokenKind) ([]store.Token, error)
	DeleteToken(ctx context.Context, id string) error
}

// An Identity is a caller whose credential was found good. It carries no
// secret.
type Identity struct {
	ID     string // of the credential
	Kind   store.TokenKind
	Name   string
	Scopes []Scope

	// Project is the directory whose sessions are all there is for the caller,
	// as their records name it; empty for everything.
	Project string

	hash [32]byte
}

// A Grant says what a credential for a program is made for.
type Grant struct {
	Name    string
	Scopes  []Scope
	Life    time.Duration // zero: without end
	Project string        // a directory, as [ProjectDir] returns it; empty: everything

	// By makes it. The credential ends with that of By, at the latest. The zero
	// Identity is the owner of the data directory.
	By Identity
}

// ProjectDir returns the name of a directory in the records of sessions. It
// must exist.
func ProjectDir(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", errors.New("the project directory must be an absolute path")
	}
	real, err := filepath.EvalSymlinks(filepath.Clean(dir))
	if err != nil {
		return "", errors.New("the project directory does not exist or cannot be reached")
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", errors.New("the project directory is not a directory")
	}
	return real, nil
}

// Has reports whether the caller may do what s covers.
func (id Identity) Has(s Scope) bool { return slices.Contains(id.Scopes, s) }

// ParseScopes checks names that a person typed.
func ParseScopes(names []string) ([]Scope, error) {
	var out []Scope
	for _, n := range names {
		s := Scope(n)
		if !slices.Contains(All(), s) {
			return nil, fmt.Errorf("unknown scope %q: use read, send, approve or admin", n)
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no scope: use read, send, approve or admin")
	}
	return out, nil
}

func identify(t store.Token) Identity {
	id := Identity{ID: t.ID, Kind: t.Kind, Name: t.Name, Project: t.Project, hash: t.Hash}
	for _, s := range t.Scopes {
		id.Scopes = append(id.Scopes, Scope(s))
	}
	return id
}

func names(scopes []Scope) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s)
	}
	return out
}
