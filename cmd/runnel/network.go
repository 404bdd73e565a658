package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/runnel-dev/runnel/httpapi"
	"github.com/runnel-dev/runnel/internal/lan"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// A network serves devices of the local network. A nil *network serves none.
type network struct {
	listener     *lan.Listener
	authority    *lan.Authority
	certificates *lan.Certificates
	place        *lan.Place
	close        func()
}

// addressesEvery is how often the server looks for changed addresses.
const addressesEvery = 10 * time.Second

// openNetwork listens at the given port of the private addresses of this
// machine, if the configuration asks for that. The caller must call end.
func (a *app) openNetwork(ctx context.Context, c config, port string, log *slog.Logger) (*network, error) {
	if !c.LAN {
		return nil, nil
	}
	hostname, _ := os.Hostname() // without a name, devices use the addresses
	authority, err := lan.Load(authorityFile(c), lan.Names(hostname), time.Now())
	if unsafe, ok := errors.AsType[*private.Error](err); ok {
		return nil, fmt.Errorf("the certificate authority: %w", unsafe)
	} else if err != nil {
		return nil, err
	}
	ln, err := lan.Listen(ctx, port, lan.Addresses)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--lan: another program uses the port: %s; stop that program, or choose another port with --listen", termtext.Clean(err.Error()))
	} else if err != nil {
		return nil, fmt.Errorf("--lan: %w", err)
	}
	if len(ln.Addrs()) == 0 {
		log.Warn("--lan: this machine has no private address (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10 or fc00::/7), so other devices cannot reach the page; the server listens as soon as there is one")
	}
	names := authority.Permits(lan.Names(hostname))
	if len(names) == 0 && len(lan.Names(hostname)) > 0 {
		log.Warn("the certificate authority was created under another name of this machine, so devices cannot use its present name; to change that, remove the file of the authority and let your devices trust the new one", "hostname", hostname, "file", authorityFile(c))
	}
	n := &network{
		listener: ln, authority: authority,
		certificates: &lan.Certificates{Authority: authority, Names: names, Addrs: ln.Addrs, Now: time.Now},
		place:        &lan.Place{Names: names, Port: port, Addrs: ln.Addrs},
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { n.follow(ctx, log) }) // ends with ctx
	n.close = func() {
		cancel()
		work.Wait()
		_ = ln.Close()
	}
	return n, nil
}

// follow lets the listener follow the addresses of this machine until ctx ends.
func (n *network) follow(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(addressesEvery)
	defer tick.Stop()
	failing := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := ""
		if err := n.listener.Refresh(ctx); err != nil {
			now = err.Error()
		}
		if now != "" && now != failing {
			log.Warn("cannot listen on all addresses of the local network; trying again", "error", now)
		}
		failing = now
	}
}

// end stops listening.
func (n *network) end() {
	if n != nil {
		n.close()
	}
}

// url returns the address of the page for other devices, or "".
func (n *network) url() string {
	if n == nil {
		return ""
	}
	return n.place.URL()
}

// forAPI describes the network to the API.
func (n *network) forAPI() *httpapi.Network {
	if n == nil {
		return nil
	}
	return &httpapi.Network{
		Place: n.place, CertificatePEM: n.authority.PEM(), Name: n.authority.Name(), Fingerprint: n.authority.Fingerprint(), Steps: trustSteps("certificate.crt"),
	}
}

// authorityFile returns the path of the certificate authority: beside the key
// that encrypts secrets, and so outside of the data directory.
func authorityFile(c config) string {
	return filepath.Join(filepath.Dir(c.KeyFile), "lan-authority.pem")
}

// trustSteps returns how to trust the authority on each system. file is the
// name of the file with its certificate.
func trustSteps(file string) []httpapi.Step {
	return []httpapi.Step{
		{System: "iPhone and iPad", Lines: []string{
			"Open the address in Safari, download the certificate and allow the download of the profile.",
			"Open Settings > General > VPN & Device Management, choose the profile, compare the fingerprint under More Details, and install it.",
			"Open Settings > General > About > Certificate Trust Settings and switch on full trust for the authority.",
		}},
		{System: "Android", Lines: []string{
			"Download the certificate in Chrome.",
			"Open Settings, search for \"CA certificate\", choose Install anyway, and choose the file.",
			"Compare the fingerprint under Trusted credentials > User.",
		}},
		{System: "macOS", Lines: []string{
			"Run: security add-trusted-cert -r trustRoot -p ssl -k ~/Library/Keychains/login.keychain-db " + file,
		}},
		{System: "Windows", Lines: []string{
			"Run: certutil -user -addstore Root " + file,
		}},
		{System: "Linux (Chrome, Chromium, Edge)", Lines: []string{
			"Run: certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n runnel -i " + file + " (certutil is in the package libnss3-tools)",
		}},
		{System: "Firefox", Lines: []string{
			"Open Settings > Privacy & Security > View Certificates > Authorities > Import, choose " + file + " and switch on trust for websites.",
		}},
	}
}

// shownSteps formats the steps for a terminal.
func shownSteps(steps []httpapi.Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "\n%s:\n", s.System)
		for i, line := range s.Lines {
			fmt.Fprintf(&b, "  %d. %s\n", i+1, line)
		}
	}
	return b.String()
}
