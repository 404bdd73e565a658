package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// underLocalhost reports whether a host name is localhost or a name under it,
// such as x.localhost.
func underLocalhost(host string) bool {
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(host, ".")), ".")
	return labels[len(labels)-1] == "localhost"
}

// proxyOf is [http.ProxyFromEnvironment], but never uses a proxy for names
// under localhost. ProxyFromEnvironment exempts only localhost itself, so a
// proxy would receive the token.
func proxyOf(r *http.Request) (*url.URL, error) {
	if underLocalhost(r.URL.Hostname()) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// dialServer dials the address of a server. It dials loopback for names under
// localhost, such as the page's name. They mean this machine (RFC 6761), but
// few resolvers know that.
func dialServer(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if !underLocalhost(host) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	var failed []error
	for _, ip := range []string{"127.0.0.1", "::1"} {
		c, err := new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(ip, port))
		if err == nil {
			return c, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}
