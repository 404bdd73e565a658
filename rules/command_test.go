package rules

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/store"
)

func TestSimpleCommand(t *testing.T) {
	for text, want := range map[string][]string{
		"git status":               {"git", "status"},
		"  git   status  ":         {"git", "status"},
		"git diff HEAD~1 HEAD^":    {"git", "diff", "HEAD~1", "HEAD^"},
		`git commit -m "a b"`:      {"git", "commit", "-m", "a b"},
		`git commit -m 'a $(b) ;'`: {"git", "commit", "-m", "a $(b) ;"},
		`grep -E "\bfoo\$"`:        {"grep", "-E", `\bfoo$`},
		`echo ""`:                  {"echo", ""},
		`g'i't "stat"us`:           {"git", "status"},
		"make -j4 CC=gcc":          {"make", "-j4", "CC=gcc"},
		"go test ./...":            {"go", "test", "./..."},
		"echo 'ä 日本'":              {"echo", "ä 日本"},
	} {
		got, err := simpleCommand(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// notSimple are texts for which a shell may do something else than run one
// command with exactly the words of the text.
var notSimple = []string{
	"", " ", "#", "git status # and more", "git status;", "git status; rm -rf ~", "git status && rm -rf ~", "git status || rm x",
	"git status | sh", "git status |& sh", "git status & rm x", "git status &", "git status\nrm -rf ~", "git status\r\nrm x", "git \\\nstatus",
	"git status $(rm -rf ~)", "git status `rm -rf ~`", "git status <(rm x)", "git status >(rm x)", "git status > /etc/passwd", "git status >> x",
	"git status < x", "git status <<< x", "git status <<E\nE", "git status 2>&1", "git${IFS}status", "git $X", "git $'status'", `git $"status"`,
	"git $((1+1))", "git \"$X\"", "git \"`x`\"", "X=1 git status", "X=1", "GIT_PAGER=x git log", "! git status", "time git status",
	"(git status)", "{ git status; }", "if true; then git status; fi", "git() { rm x; }", "function git { rm x; }", "coproc git status",
	"git *", "git ?", "git [a]", "git {a,b}", "git {1..3}", "git ~", "git ~/x", "git --x=~/y", "git a:~", "=git status", "git =ls", "git ''=ls", `git ""=ls`, `git \status`,
	`\git status`, "git sta\ttus", "git\x00status", "git \x1b[0mstatus", "git\u00a0status", "git \u202estatus", "git st\u200batus", "gіt status",
	"git status\u2028rm", "ｇit", "git \xff", "git status !", `git "!!"`, "[[ a ]]", "((1))", "let x=1", "declare x=1", "export X=1", "git 'a", `git "a`, "git $(",
	"git status \\", "git @(a|b)", `git log 'a\' 'b; id #'`, `git log 'a\'`, "for x in a; do git status; done", "case x in x) git;; esac",
}

func TestNotSimpleCommand(t *testing.T) {
	for _, text := range append(slices.Clone(notSimple), "git "+strings.Repeat("x", maxCommand), strings.Repeat("(", 8000), "git "+strings.Repeat("$(", 5000)) {
		if words, err := simpleCommand(text); err == nil {
			t.Errorf("%.80q: %q", text, words)
		}
	}
}

func TestPatternAllows(t *testing.T) {
	for _, tc := range []struct{ pattern, matches, not string }{
		{"git status", "git status|git  status|'git' \"status\"", "git status -s|git|git stat|git statuss|GIT status|/usr/bin/git status|git status; rm -rf ~"},
		{"git log *", "git log|git log -p|git log 'a b'", "git logs|git|git log --open-files-in-pager=x|git log -Oless|git log -pOless|git log --ext-d|git log --output=x|git log --outp x|git log $X"},
		{"go test *", "go test ./...|go test -run X ./...|go test -count=1 -short -v .", "go test -exec ./x|go test --exec=x|go test -toolexec=x|go test -ldflags=-extld=x|go test -o x|go test --o=x|go vet"},
		{"go test *", "go test -cover ./...|go test -covermode=count|go test -bench=. -benchmem", "go test -coverprofile x|go test -coverprofile=x|go test --cpuprofile=x|go test -memprofile x|go test -blockprofile x|go test -mutexprofile x|" +
			"go test -trace=x|go test -test.coverprofile=x|go test -args -test.trace=x|go test -gcflags=-cpuprofile=x|go test -asmflags=x|go test -modfile=x.mod|go test -C /x|go test -outputdir=x"},
		{"go build *", "go build ./...|go build -v -tags x .", "go build -o x|go build -debug-actiongraph=x|go build -pkgdir x"},
		{"go fix *", "go fix ./...|go fix -diff .", "go fix -fixtool=x .|go fix --fixtool x .|go fix -toolexec x"},
		{"git archive *", "git archive HEAD", "git archive HEAD -o x|git archive -ox HEAD"},
		{"git archive *", "git archive --prefix=x/ HEAD", "git archive -vo x HEAD|git archive --output=x HEAD"},
		{"git fast-export *", "git fast-export --all", "git fast-export --export-marks=x HEAD|git fast-export --export-m x HEAD"},
		{"git bugreport *", "git bugreport --no-suffix", "git bugreport -o /x"},
		{"git read-tree *", "git read-tree HEAD", "git read-tree --index-output=x HEAD"},
		{"git repack *", "git repack -a -d", "git repack --filter=x --filter-to=/x|git repack --cruft --expire-to=/x"},
		{"git init *", "git init .", "git init --separate-git-dir=/x ."},
		{"git merge *", "git merge --no-ff x|git merge -m x y", "git merge -s x y|git merge --strategy=x y|git merge --strateg x y"},
		{"git commit *", "git commit -s -m x", "git commit --template=x"},
		{"git ls-files *", "git ls-files -o", "git ls-files --outp=x"},
		{"git fetch *", "git fetch origin", "git fetch --upload-pack=x|git fetch --upload-p x|git fetch ext::sh"},
		{"make test *", "make test V", "make test SHELL=/x|make test -f x|make test -fx|make test -kf x|make test --eval=x|make test --ev x"},
		{"make test *", "make test -k -j4", "make test -C /x|make test -kC /x|make test --directory=/x|make test -I /x|make test --include-dir /x"},
		{"gmake test *", "gmake test V", "gmake test SHELL=/x|gmake test -f x"},
		{"cargo test *", "cargo test --release -- --nocapture", "cargo test --manifest-path=x|cargo test --target-dir /x|cargo test -- --logfile=x|cargo test --config x|cargo test -Zx"},
		{"npm test *", "npm test|npm test -- -t x", "npm test --prefix /x|npm test --userconfig=x|npm test -C /x"},
		{"pnpm test *", "pnpm test", "pnpm test --config.script-shell=x|pnpm test --dir /x"},
		{"yarn run test *", "yarn run test -u", "yarn run test --cwd /x"},
		{"uv sync *", "uv sync --frozen", "uv sync --python /x|uv sync -p /x|uv sync --directory=/x"},
		{"pytest *", "pytest -x -v tests", "pytest --junitxml=x|pytest --basetemp /x|pytest -c x|pytest -p x|pytest -o log_file=x"},
		{"eslint *", "eslint src --ext .ts", "eslint src -o x|eslint src --output-file=x|eslint src --outputFile x|eslint -c x|eslint --rulesdir x"},
		{"jest *", "jest --coverage|jest --runInBand", "jest --coverageDirectory=/x|jest --coverage-directory /x|jest -c x"},
		{"vitest *", "vitest run --coverage", "vitest --outputFile.json=/x|vitest --coverage.reportsDirectory /x|vitest --root /x"},
		{"git stash *", "git stash pop --index", "git stash show --ext-diff"},
		{"git fetch *", "git fetch --filter=blob:none", "git fetch --upload-pack=x"},
		{"tsc *", "tsc --noEmit", "tsc -outDir x|tsc --outfile x|tsc -p x|tsc @x"},
		{"gradle test *", "gradle test --info", "gradle test -I x|gradle test --init-script x|gradle test -Dx=y"},
		{"mvn test *", "mvn test -q", "mvn test -f x|mvn test -Dexec.executable=x|mvn test --file x"},
		{"sort *", "sort -u x", "sort -uo x y|sort --output=x y"},
		{"gh release *", "gh release list", "gh release download -O x|gh release download --output=x|gh release download -D /x"},
		{"gh repo *", "gh repo view", "gh repo clone a/b -- --upload-pack=x"},
		{"kubectl get *", "kubectl get pods", "kubectl get pods --kubeconfig=x|kubectl get pods --kubeconfig x|kubectl get pods --profile=cpu --profile-output=x"},
		{"echo 'a b'", `echo "a b"|echo a' 'b`, "echo a b"},
		{"printf *", `printf '%s\n' x|printf '[%s]' a`, "printf -v 'a[$(touch x)]' y|printf -v 'a[`touch x`]' y"},
		{"test *", "test -e x", "test -v 'a[$(touch x)]'"},
		{"read *", "read x", "read 'a[$(touch x)]'"},
		{"nm *", "nm -D x", "nm --plugin ./x.so y|nm --plugin=./x.so y|nm --plug ./x.so y"},
		{"yq *", "yq .a x", "yq -s .a x|yq --split-exp .a x"},
		{"hg log *", "hg log -l 3", "hg log --config x=y|hg log --cwd /x|hg log -R /x|hg log --conf hooks.x=y"},
		{"svn diff *", "svn diff -r 3", "svn diff --diff-cmd x|svn diff --config-option x|svn diff --config-dir=/x|svn diff --diff-c x"},
		{"jj log *", "jj log -n 3", "jj log --config x=y|jj log --config-file=x|jj log -R /x"},
		{"helm template *", "helm template x", "helm template x --post-renderer ./y|helm template x --output-dir=/y|helm template x --kubeconfig y"},
		{"cmake *", "cmake --build x", "cmake -P x|cmake -E env x|cmake -Px|cmake -DCMAKE_C_COMPILER_LAUNCHER=/x .|cmake --build x -- SHELL=/x|cmake --toolchain /x .|cmake --install x --prefix /y"},
		{"go1.26 vet *", "go1.26 vet ./...", "go1.26 vet -vettool=/x ./..."},
		{"make-4.4 test *", "make-4.4 test -k", "make-4.4 test SHELL=/x"},
		{"systemctl status *", "systemctl status x|systemctl status --user x", "systemctl status -H x y|systemctl status --host=x y|systemctl status -M x y|systemctl status --root=/x y"},
		{"pip list *", "pip list --outdated", "pip list --log /x|pip list --python /x|pip list --cache-dir=/x"},
		{"apt list *", "apt list --installed", "apt list -o DPkg::Pre-Invoke=x|apt list -oDir=x|apt list -c x|apt list --option x"},
		{"pytest *", "pytest tests", "pytest @options|pytest --debug=x|pytest --cov-report=html:/x|pytest --report-log=x"},
		{"npm docs *", "npm docs x", "npm docs --browser /x y|npm docs --editor=/x y|npm docs --cache=/x"},
		{"eslint *", "eslint src", "eslint --inspect-config|eslint --init"},
		{"prettier *", "prettier --check .", "prettier --plugin-search-dir=/x ."},
		{"jest *", "jest x", "jest --filter=/x|jest --projects /x|jest --preset=/x|jest --setupFiles /x|jest --testResultsProcessor=/x|jest --cacheDirectory=/x"},
		{"vitest *", "vitest run", "vitest --workspace /x|vitest --environment=/x|vitest --pool=/x"},
		{"mypy *", "mypy --strict src", "mypy --html-report /x src|mypy --txt-r /x|mypy --install-types"},
		{"gradle test *", "gradle test --info", "gradle test -g /x|gradle test --gradle-user-home=/x|gradle test --system-prop x=y|gradle test --project-cache-dir /x"},
		{"mvn test *", "mvn test -q", "mvn test --define exec.executable=x|mvn test --global-settings /x|mvn test -gs /x|mvn test --global-toolchains=/x"},
		{"mypy *", "mypy src", "mypy @options"},
		{"ruff check *", "ruff check src", "ruff check @options"},
		{"git format-patch *", "git format-patch -1", "git format-patch --suffix=/../../x -1|git format-patch --suff=/../../x -1"},
		{"git apply *", "git apply --check x", "git apply --build-fake-ancestor=/x y|git apply --build-f=/x y"},
	} {
		p, err := parsePattern(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.SplitSeq(tc.matches, "|") {
			if words, err := simpleCommand(text); err != nil || !p.allows(words) {
				t.Errorf("%q does not match %q: %v", tc.pattern, text, err)
			}
		}
		for text := range strings.SplitSeq(tc.not, "|") {
			if words, err := simpleCommand(text); err == nil && p.allows(words) {
				t.Errorf("%q matches %q", tc.pattern, text)
			}
		}
		if again, err := parsePattern(p.String()); err != nil || again.String() != p.String() || !slices.Equal(again.words, p.words) {
			t.Errorf("%q is stored as %q, which is %q: %v", tc.pattern, p, again, err)
		}
	}
}

// An earlier version or another program may have stored a rule that Check
// rejects. Such a rule allows nothing.
func TestStoredWildcardOfACommandThatRunsOrWritesOthersAllowsNothing(t *testing.T) {
	for pattern, text := range map[string]string{
		"*":                       "ls",
		"git *":                   "git status",
		"git -C /x *":             "git -C /x status",
		"git bundle *":            "git bundle create x HEAD",
		"git worktree *":          "git worktree add /x",
		"git fast-import *":       "git fast-import --export-marks=x",
		"git rebase *":            "git rebase --exec x",
		"go *":                    "go vet",
		"go install *":            "go install example.com/git@latest",
		"cargo install *":         "cargo install x",
		"bun run *":               "bun run /x.js",
		"yarn run *":              "yarn run x",
		"yarn run -x *":           "yarn run -x y",
		"kubectl cp *":            "kubectl cp pod:/x /y",
		"sudo ls *":               "sudo ls x",
		"curl *":                  "curl x",
		"openssl *":               "openssl rand -out x",
		"uniq *":                  "uniq x y",
		"java *":                  "java -jar x",
		"jobs *":                  "jobs -x x",
		"compgen *":               "compgen -C x",
		"enable *":                "enable -f ./x.so y",
		"noglob *":                "noglob x",
		"prlimit *":               "prlimit x",
		"choom *":                 "choom -n 0 -- x",
		"ssh-agent *":             "ssh-agent x",
		"direnv *":                "direnv exec . x",
		"ipython *":               "ipython -c x",
		"hg *":                    "hg --config x=y log",
		"pipenv run *":            "pipenv run x",
		"bundle exec *":           "bundle exec x",
		"git submodule--helper *": "git submodule--helper foreach x",
		"git credential-store *":  "git credential-store --file=/x store",
		"./gradlew *":             "./gradlew -I x",
		"gcc *":                   "gcc -wrapper ./x y.c",
		"/usr/bin/clang-18 *":     "/usr/bin/clang-18 -fplugin=./x.so y.c",
		"g++-14 *":                "g++-14 -B. y.cc",
		"lua5.4 *":                "lua5.4 -e x",
		"terraform *":             "terraform apply",
		"tofu apply *":            "tofu apply -auto-approve",
		"aws *":                   "aws configure set credential_process x",
		"systemctl *":             "systemctl --user link /x.service",
		"systemctl --user *":      "systemctl --user edit x",
		"systemctl start *":       "systemctl start x",
		"pip install *":           "pip install ./x",
		"pip3.12 install *":       "pip3.12 install ./x",
		"bazel build *":           "bazel build --workspace_status_command=/x y",
		"ninja *":                 "ninja -f x",
		"nc *":                    "nc -e /bin/sh x 1",
		"pdflatex *":              "pdflatex -shell-escape x",
		"cp *":                    "cp x /y",
		"tee *":                   "tee /x",
		"dd *":                    "dd if=x of=/y",
	} {
		p, err := parsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		words, err := simpleCommand(text)
		if err != nil {
			t.Fatal(err)
		}
		if p.allows(words) {
			t.Errorf("%q allows %q", pattern, text)
		}
	}
}

func TestPatternDenies(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          tri
	}{
		{"rm *", "rm x", yes},
		{"rm *", "rm", yes},
		{"rm *", "/bin/rm x", yes},
		{"rm *", `\rm x`, yes},
		{"rm *", `r'm' x`, yes},
		{"rm *", "ls; rm -rf ~", yes},
		{"rm *", "ls && (cd x; rm y) | cat", yes},
		{"rm *", "echo $(rm x)", yes},
		{"rm *", "echo `rm x`", yes},
		{"rm *", "cat <(rm x) > y", yes},
		{"rm *", "cat <<E\n$(rm x)\nE", yes},
		{"rm *", "f() { rm x; }; f", yes},
		{"rm *", "for i in a; do rm $i; done", yes},
		{"rm *", "if rm x; then :; fi", yes},
		{"rm *", "X=1 rm x &", yes},
		{"rm *", "! rm x", yes},
		{"rm *", "time rm x", yes},
		{"rm *", "sudo -u me rm x", yes},
		{"rm *", "env A=1 rm x", yes},
		{"rm *", "find . -name x -exec rm {} \\;", yes},
		{"rm *", "ls | xargs rm", yes},
		{"rm *", "ls | xargs -n1 rm -f", yes},
		{"rm *", "sh -c 'ls; rm x'", yes},
		{"rm *", `bash -lc "sh -c 'rm x'"`, yes},
		{"rm *", "eval 'rm x'", yes},
		{"rm *", "export X=$(rm x)", yes},
		{"rm *", "r\\\nm x", yes},
		{"rm *", "ls", no},
		{"rm *", "echo rm", no},
		{"rm *", "rmdir x", no},
		{"rm *", "$RM x", unknown},
		{"rm *", "r${x}m x", unknown},
		{"rm *", "$'\\x72m' x", unknown},
		{"rm *", "/bin/r? x", unknown},
		{"rm *", "{rm,-rf,x}", unknown},
		{"rm *", "sudo $X", unknown},
		{"rm *", "sh -c \"$X\"", unknown},
		{"rm *", "bash", unknown},
		{"rm *", "echo 'a", unknown},
		{"rm *", "", unknown},
		{"git push", "git push", yes},
		{"git push", "git push -f", no},
		{"git push", "git push $X", unknown},
		{"git push", "git $X", unknown},
		{"git push", "ls; git push", yes},
		{"/bin/rm *", "rm x", no},
		{"*", "ls", yes},
		{"*", "X=1", no},
	} {
		p, err := parsePattern(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.denies(parseScript(tc.text)); got != tc.want {
			t.Errorf("%q and %q: %d, want %d", tc.pattern, tc.text, got, tc.want)
		}
	}
}

func TestUnwrapped(t *testing.T) {
	for text, want := range map[string]string{
		"/bin/bash -lc 'git status'":              "git status",
		"bash -c 'git status; rm x'":              "git status; rm x",
		"/usr/bin/zsh -lc ls":                     "ls",
		"/tmp/bash -lc ls":                        "/tmp/bash -lc ls",
		"bash -lc ls more":                        "bash -lc ls more",
		"bash -lc ls; rm":                         "bash -lc ls; rm",
		"bash -lc \"$X\"":                         "bash -lc \"$X\"",
		"python -c x":                             "python -c x",
		`/bin/bash -lc "bash -lc 'git status'"`:   "bash -lc 'git status'",
		`/bin/bash -lc 'echo '"'"'a b'"'"' | sh'`: `echo 'a b' | sh`,
	} {
		if got := unwrapped(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Each word after a command that runs other commands, such as env, may begin a
// command. The memory for parsing must nevertheless grow only with the length
// of the text.
func TestScriptOfManyWordsTakesMemoryOfItsLength(t *testing.T) {
	text := "env" + strings.Repeat(" a", maxCommand/2-2)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	parseScript(text)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 {
		t.Errorf("%d bytes of memory for a command of %d bytes", got, len(text))
	}
}

// There may be a thousand rules, and a command of an agent may be long. It is
// parsed once, and not once for each rule.
func TestCommandIsParsedOnceForAllRules(t *testing.T) {
	c := call("/p", "Bash", args{"command": "git" + strings.Repeat(" a", 1000)})
	var list []store.Rule
	for i := range 100 {
		list = append(list, allow(store.RuleExecute, fmt.Sprintf("git x%d *", i)))
	}
	one, all := NewSet(list[:1]), NewSet(list)
	least := allocations(func() { one.Allows(c) })
	if n := allocations(func() { all.Allows(c) }); n > 2*least {
		t.Errorf("%d rules take %d allocations, and one rule %d", len(list), n, least)
	}
}
