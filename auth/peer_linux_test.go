package auth

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestA11_OnlyStrangersToOurTree(t *testing.T) {
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Skip("no cat here")
	}
	defer func() { in.Close(); _ = child.Wait() }()
	for name, tt := range map[string]struct {
		pid  int
		want bool
	}{
		"this process": {os.Getpid(), true},
		"its child":    {child.Process.Pid, true},
		"its parent":   {os.Getppid(), false},
		"the first":    {1, false},
		"nobody":       {1 << 30, true}, // cannot be told
	} {
		if got := ours(tt.pid); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestA11_OwnProcessHasNoIdentity(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	here, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	there, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	pid, ok := sameUser(there.(*net.UnixConn))
	if !ok || pid != os.Getpid() {
		t.Errorf("the other end is %d, %v", pid, ok)
	}
	if id, ok := Local(there.(*net.UnixConn)); ok {
		t.Errorf("got %+v", id)
	}
}
