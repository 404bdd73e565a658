package publicip

import (
	"net/netip"
	"testing"
)

func TestOnlyPublicAddressesArePublic(t *testing.T) {
	for text, want := range map[string]bool{
		"142.250.74.106": true, "2a00:1450:4001:82a::200a": true, "1.1.1.1": true, "2606:4700::1111": true, "::ffff:1.1.1.1": true, "168.63.129.17": true,
		"127.0.0.1": false, "::1": false, "0.0.0.0": false, "::": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false, "168.63.129.16": false, "100.100.100.100": false, "fd00::1": false, "fe80::1": false, "fe80::1%eth0": false, "ff02::1": false,
		"2606:4700::1111%eth0": false, "224.0.0.1": false, "255.255.255.255": false, "192.0.0.1": false, "198.18.0.1": false, "203.0.113.1": false, "240.0.0.1": false,
		"64:ff9b::a00:1": false, "::ffff:0:a00:1": false, "2002:a00:1::": false, "2001:0:1::": false, "2001:db8::1": false, "::a00:1": false, "fec0::1": false,
		"::ffff:10.0.0.1": false, "192.88.99.1": false, "2001:10::1": false,
	} {
		if got := Is(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
