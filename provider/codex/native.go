package codex

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// targets holds, for each operating system and architecture, the npm package
// and the folder in it that contain the program.
var targets = map[string][2]string{
	"linux/amd64":   {"codex-linux-x64", "x86_64-unknown-linux-musl"},
	"linux/arm64":   {"codex-linux-arm64", "aarch64-unknown-linux-musl"},
	"darwin/amd64":  {"codex-darwin-x64", "x86_64-apple-darwin"},
	"darwin/arm64":  {"codex-darwin-arm64", "aarch64-apple-darwin"},
	"windows/amd64": {"codex-win32-x64", "x86_64-pc-windows-msvc"},
	"windows/arm64": {"codex-win32-arm64", "aarch64-pc-windows-msvc"},
}

// native returns the program that npm's launcher would run, and the variables
// that the launcher adds to its environment (bin/codex.js of 0.169.0). Without
// the launcher a conversation starts faster and needs no Node.js process. A
// path outside npm's layout is returned unchanged.
func native(path string) (program string, env []string) {
	launcher, err := filepath.EvalSymlinks(path)
	target, known := targets[runtime.GOOS+"/"+runtime.GOARCH]
	root := filepath.Dir(filepath.Dir(launcher))
	if err != nil || !known || filepath.Base(launcher) != "codex.js" || !strings.HasSuffix(filepath.ToSlash(root), "/@openai/codex") {
		return path, nil
	}
	name := "codex"
	if runtime.GOOS == "windows" {
		name = "codex.exe"
	}
	for _, dir := range []string{
		filepath.Join(root, "node_modules", "@openai", target[0]), filepath.Join(filepath.Dir(root), target[0]), root,
	} {
		program := filepath.Join(dir, "vendor", target[1], "bin", name)
		if st, err := os.Stat(program); err == nil && st.Mode().IsRegular() {
			return program, []string{"CODEX_MANAGED_PACKAGE_ROOT=" + root, "CODEX_MANAGED_BY_NPM=1"}
		}
	}
	return path, nil
}
