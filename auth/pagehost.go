package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"
)

// A PageHost is the host name under which browsers on this machine open the
// page: a random label below localhost. A program that used our port before,
// for example an agent's preview server, had another host name. Service
// workers, cookies and storage that it left in a browser therefore do not apply
// to the page. The methods may be called concurrently.
type PageHost struct {
	file string

	mu   sync.Mutex
	name string
}

// OpenPageHost reads the name from file. If there is no file, it creates a name
// and the file.
func OpenPageHost(file string) (*PageHost, error) {
	p := &PageHost{file: file}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return p, p.Renew()
	} else if err != nil {
		return nil, fmt.Errorf("read the page's host name: %w", err)
	}
	label := strings.TrimSpace(string(text))
	if !randomLabel.MatchString(label) {
		return nil, fmt.Errorf("%s contains no valid host name of the page; remove the file, and the server creates a new name", file)
	}
	p.name = underLocalhost(label)
	return p, nil
}

// randomLabel matches the results of newLabel, which have at least 128 random
// bits.
var randomLabel = regexp.MustCompile(`^[a-z2-7]{26}$`)

func newLabel() string { return strings.ToLower(rand.Text()) }

func underLocalhost(label string) string { return label + ".localhost" }

// Name returns the host name, in lower case.
func (p *PageHost) Name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name
}

// Renew replaces the name. The server rejects the old name from then on.
func (p *PageHost) Renew() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	label := newLabel()
	if err := writePrivate(p.file, label+"\n"); err != nil {
		return fmt.Errorf("store the page's host name: %w", err)
	}
	p.name = underLocalhost(label)
	return nil
}

// writePrivate replaces a file atomically: a reader finds either the old text
// or the new one. Only our user can read the file.
func writePrivate(file, text string) error {
	next := file + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(next, file)
	}
	return err
}
