package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A server that is stopped, or too busy to accept connections, still listens. Once
// its queue is full, the system answers that the caller should try again.
func TestSocketWhoseQueueIsFullIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	open := func() int {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Close(fd) })
		return fd
	}
	address := &syscall.SockaddrUnix{Name: path}
	listener := open()
	if err := errors.Join(syscall.Bind(listener, address), syscall.Listen(listener, 0)); err != nil {
		t.Fatal(err)
	}
	for n, err := 0, error(nil); !errors.Is(err, syscall.EAGAIN); n++ {
		if err = syscall.Connect(open(), address); err != nil && !errors.Is(err, syscall.EAGAIN) || n > 100 {
			t.Fatalf("connection %d: %v", n, err)
		}
	}
	ln, err := listenSocket(t.Context(), config{Socket: path, Data: dir})
	if err == nil {
		_ = ln.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "another program listens on the unix socket") {
		t.Errorf("got %v", err)
	}
}
