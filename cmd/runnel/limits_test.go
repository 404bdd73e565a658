package main

import (
	"strings"
	"testing"
)

func TestConnectionsLeaveAReserve(t *testing.T) {
	for _, tt := range []struct{ setting, descriptors, address, socket int }{
		{0, 256, 128, 32}, {100, 256, 100, 32}, {0, 1 << 20, mostConnections, maxReserve / 4}, {0, 2, 1, 1},
	} {
		l := limits{MaxConnections: tt.setting}
		address, socket, err := l.connections(tt.descriptors)
		if err != nil || address != tt.address || socket != tt.socket {
			t.Errorf("%+v: %d and %d, %v", tt, address, socket, err)
		}
	}
	l := limits{MaxConnections: 200}
	if _, _, err := l.connections(256); err == nil || !strings.Contains(err.Error(), "max-connections") || !strings.Contains(err.Error(), "128") {
		t.Errorf("more than there is room for: %v", err)
	}
}

func TestLimitSettingsAreCheckedAndHaveDefaults(t *testing.T) {
	var l limits
	for _, s := range limitSettings() {
		*s.value(&l) = s.preset
	}
	if err := l.check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, s := range limitSettings() {
		wrong := l
		*s.value(&wrong) = -1
		if err := wrong.check(); err == nil || !strings.HasPrefix(err.Error(), s.name+": -1") {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}
