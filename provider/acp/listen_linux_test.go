package acp

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/realagents"
)

// Everybody on the machine can connect to a port on loopback, and some agents run
// the commands of every caller there.
func TestAgentsServeNobodyElse(t *testing.T) {
	eachOf(t, realagents.ACP(), func(t *testing.T, r *rig) {
		r.Open()
		r.Play(said)
		r.Finish(once)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		ports := listening(t, "HOME="+r.Home.Dir)
		for _, port := range ports {
			for _, path := range []string{"/", "/session", "/doc", "/event"} {
				resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
				if err != nil {
					t.Error(err)
					continue
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusUnauthorized {
					t.Errorf("port %d answers a stranger's request for %s: %s", port, path, resp.Status)
				}
			}
		}
		if r.Agent.Name == "opencode" && len(ports) == 0 {
			t.Error("the port of opencode was not found, so nothing was tested")
		}
	})
}

// listening returns the TCP ports on which the processes listen that have the
// variable ("K=V").
func listening(t *testing.T, variable string) (ports []int) {
	t.Helper()
	owned := map[string]bool{}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range environs {
		env, err := os.ReadFile(path)
		if err != nil || !strings.Contains("\x00"+string(env), "\x00"+variable+"\x00") {
			continue
		}
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "fd", "*"))
		for _, f := range files {
			if to, err := os.Readlink(f); err == nil {
				owned[to] = true
			}
		}
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil {
			continue // this machine has no IPv6
		}
		for line := range strings.Lines(string(b)) {
			const listens = "0A"
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listens || !owned["socket:["+f[9]+"]"] {
				continue
			}
			var port int
			if _, err := fmt.Sscanf(f[1][strings.LastIndex(f[1], ":")+1:], "%x", &port); err != nil {
				t.Fatal(err)
			}
			ports = append(ports, port)
		}
	}
	return ports
}

func TestPasswordOfTheUserIsKept(t *testing.T) {
	const name = "SERVER_PASSWORD"
	for given, kept := range map[string]bool{name + "=mine": true, name + "=": false, "OTHER_" + name + "=mine": false} {
		got := withPassword([]string{given, "A=b"}, name)
		if slices.Equal(got, []string{given, "A=b"}) != kept {
			t.Errorf("%s: %q", given, got)
		}
		random := regexp.MustCompile(`^` + name + `=rnl_\w{26}$`)
		if !kept && (len(got) < 2 || !random.MatchString(got[len(got)-1]) || slices.Contains(got, name+"=")) {
			t.Errorf("%s: %q", given, got)
		}
	}
	if env := []string{"A=b"}; !slices.Equal(withPassword(env, ""), env) {
		t.Error("an agent without a server got a password")
	}
}
