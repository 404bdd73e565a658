package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"

	"github.com/runnel-dev/runnel/auth"
)

// pageHostFile is the file in the data directory that stores the page's own
// host name.
const pageHostFile = "page-host"

// A pagePlace is where browsers find the page and programs find the API.
type pagePlace struct {
	host    *auth.PageHost // the page's own host name; nil if the server is not on loopback
	scheme  string
	port    string
	api     string   // URL of the API, for programs on this machine
	origins []string // from the configuration
	network *network // nil without --lan
}

// findPage returns the place of the page of a server that listens on ln.
func findPage(c config, ln net.Listener) (*pagePlace, error) {
	host, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return nil, err
	}
	p := &pagePlace{scheme: "http", port: port, origins: c.Origins}
	if c.TLSCert != "" {
		p.scheme = "https"
	}
	if len(bound(ln)) == 0 {
		if p.host, err = auth.OpenPageHost(filepath.Join(c.Data, pageHostFile)); err != nil {
			return nil, err
		}
	} else if p.scheme == "https" { // the name for which the certificate was issued
		host = cmp.Or(first(c.Hosts), hostOf(first(c.Origins)), host)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	p.api = p.scheme + "://" + net.JoinHostPort(host, port)
	return p, nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func hostOf(origin string) string {
	u, err := url.Parse(origin)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Host implements browser.Page.
func (p *pagePlace) Host() string {
	if p.host == nil {
		return ""
	}
	return p.host.Name()
}

// URL implements browser.Page.
func (p *pagePlace) URL() string {
	switch {
	case len(p.origins) > 0:
		return p.origins[0]
	case p.host == nil:
		return ""
	}
	return p.scheme + "://" + net.JoinHostPort(p.host.Name(), p.port)
}

// Renew implements browser.Page.
func (p *pagePlace) Renew() error {
	if p.host == nil {
		return errors.New("the page has no host name of its own")
	}
	return p.host.Renew()
}

// bound returns the address of ln, or nil if it is a loopback address.
func bound(ln net.Listener) []netip.Addr {
	ap, err := netip.ParseAddrPort(ln.Addr().String())
	if err != nil || ap.Addr().IsLoopback() {
		return nil
	}
	return []netip.Addr{ap.Addr()}
}

// portOf returns the port of a listener.
func portOf(ln net.Listener) []int {
	if a, ok := ln.Addr().(*net.TCPAddr); ok {
		return []int{a.Port}
	}
	return nil
}

// announce prints the address of the page with a link that logs one browser in.
func (a *app) announce(ctx context.Context, p *pagePlace, keys *auth.Keyring) error {
	if p.URL() == "" {
		_, err := fmt.Fprintf(a.out, "runnel is ready; its API is at %s . The page has no address yet: set it with --origin, such as https://runnel.example.org. Stop the server with Ctrl-C.\n", p.api)
		return err
	}
	code, err := keys.LoginCode(ctx, auth.All())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "runnel is ready; its API is at %s . Open this link; it works once, for a minute:\n\n  %s\n\nFor another link, run: runnel login. Stop the server with Ctrl-C.\n", p.api, pageLink(p.URL(), code))
	if url := p.network.url(); err == nil && url != "" {
		_, err = fmt.Fprintf(a.out, "\nOther devices of your network reach the page at %s . To let one in:\n  1. Trust the certificate there: open %s/certificate on the device; 'runnel certificate' says more.\n  2. Run 'runnel login' here and scan the code that it prints.\n", url, url)
	}
	return err
}
