// Package auth manages credentials: who may call the gateway, and for what.
//
// A credential is a random secret. The server stores only its SHA-256 hash. The
// scopes of a credential belong to the record on the server, so no request can
// extend them.
package auth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/store"
)

// A Scope is a permission of a credential.
type Scope string

// The scopes. None includes another.
const (
	Read    Scope = "read"    // read sessions and their events
	Send    Scope = "send"    // create, prompt, cancel, end and delete sessions
	Approve Scope = "approve" // answer approvals
	Admin   Scope = "admin"   // manage credentials, and capture raw lines of agents
)

// All returns every scope.
func All() []Scope { return []Scope{Read, Send, Approve, Admin} }

// Reasons why a credential is rejected. ErrInvalid does not distinguish
// unknown, expired and revoked credentials.
var (
	ErrInvalid   = errors.New("auth: no such credential")
	ErrThrottled = errors.New("auth: too many failed attempts")
	ErrEnded     = errors.New("auth: the credential was revoked or has expired")

	// ErrMakerEnded means that a credential ended while it was used to create
	// another.
	ErrMakerEnded = errors.New("the credential that creates this one was revoked or has expired")

	ErrBoundAdmin = errors.New("a credential for one project cannot have the scope admin")
)

// Lifetimes and intervals.
const (
	CodeLife    = time.Minute         // lifetime of a one-time login code
	BrowserLife = 30 * 24 * time.Hour // lifetime of a browser's credential after its last use
	recheck     = time.Minute         // how long a check result is cached, and how often open streams are checked again
	renewEvery  = time.Hour           // minimum time between two records of a credential's use
)

// Tokens is the part of a [store.Catalogue] that stores credentials.
type Tokens interface {
	PutToken(ctx context.Context, t store.Token) error
	TokenByHash(ctx context.Context, hash [32]byte) (store.Token, error)
	Tokens(ctx context.Context, kind store.TokenKind) ([]store.Token, error)
	DeleteToken(ctx context.Context, id string) error
}

// An Identity is a caller whose credential is valid. It contains no secret.
type Identity struct {
	ID     string // id of the credential
	Kind   store.TokenKind
	Name   string
	Scopes []Scope

	// Project is the canonical directory to whose sessions the caller is
	// limited; empty for no limit.
	Project string

	hash [32]byte
}

// A Grant describes a credential to create.
type Grant struct {
	Name    string
	Scopes  []Scope
	Life    time.Duration // zero: unlimited
	Project string        // directory to which the credential is limited, as [ProjectDir] returns it; empty: no limit

	// By is the caller that creates the credential. The credential ends no
	// later than that of By. The zero Identity stands for the owner of the data
	// directory.
	By Identity
}

// String describes the credential that a grant creates.
func (g Grant) String() string {
	scopes := make([]string, len(g.Scopes))
	for i, sc := range g.Scopes {
		scopes[i] = string(sc)
	}
	what := g.Name + ": " + strings.Join(scopes, ", ")
	if g.Project != "" {
		what += " in " + g.Project
	}
	if g.Life > 0 {
		what += " for " + g.Life.String()
	}
	return what
}

// CheckName returns an error for a name that no credential of a program may
// have. Names appear in logs, on terminals and as the maker of a decision.
func CheckName(name string) error {
	if name == "" || len(name) > 100 {
		return errors.New("want 1 to 100 bytes")
	}
	if strings.TrimSpace(name) != name || !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return errors.New("want one line of visible characters, without spaces at its ends")
	}
	return nil
}

// ProjectDir returns the canonical path of a directory, which is the form that
// the records of sessions have. The directory must exist.
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

// Has reports whether the caller has the scope s.
func (id Identity) Has(s Scope) bool { return slices.Contains(id.Scopes, s) }

// ParseScopes converts names that a person typed to scopes, without duplicates.
// It returns an error for an unknown name or no name.
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
