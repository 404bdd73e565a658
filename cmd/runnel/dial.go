package main

import (
	"context"
	"errors"
	"net"
	"strings"
)

// dialServer dials the address of a server. Names under localhost, such as the
// page's, are this machine by definition (RFC 6761), but few resolvers know them.
func dialServer(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	labels := strings.Split(strings.ToLower(host), ".")
	if labels[len(labels)-1] != "localhost" {
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
