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

// A PageHost is the name under which browsers of this machine open the page: a
// random label below localhost. Whoever served something on our port before, a
// preview of an agent's for instance, had another name, so nothing that it left
// in a browser (service workers, cookies, storage) reaches the page. Its
// methods may be called from anywhere.
type PageHost struct {
	file string

	mu   sync.Mutex
	name string
}

// OpenPageHost reads the name from file, or makes one where there is no file.
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
		return nil, fmt.Errorf("%s holds no host name of the page; remove it, and the page gets a new one", file)
	}
	p.name = underLocalhost(label)
	return p, nil
}

// randomLabel matches what newLabel returns: 128 random bits or more.
var randomLabel = regexp.MustCompile(`^[a-z2-7]{26}$`)

func newLabel() string { return strings.ToLower(rand.Text()) }

func underLocalhost(label string) string { return label + ".localhost" }

// Name returns the name, in small letters.
func (p *PageHost) Name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name
}

// Renew replaces the name. The old one is refused from then on.
func (p *PageHost) Renew() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	label := newLabel()
	if err := writePrivate(p.file, label+"\n"); err != nil {
		return fmt.Errorf("keep the page's host name: %w", err)
	}
	p.name = underLocalhost(label)
	return nil
}

// writePrivate replaces a file at once: a reader finds the old text or the new.
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
