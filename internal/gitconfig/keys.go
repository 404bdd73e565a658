package gitconfig

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// An entry is a key of a configuration and its value. Git prints the section
// and the name of a key in lower case, and the subsection between them
// unchanged.
type entry struct{ key, value string }

// parts returns the section, the subsection and the name of the key.
func (e entry) parts() (section, middle, name string) {
	section, rest, _ := strings.Cut(e.key, ".")
	if i := strings.LastIndexByte(rest, '.'); i >= 0 {
		return section, rest[:i], rest[i+1:]
	}
	return section, "", rest
}

// isInclude reports whether the value is the path of a further configuration.
func (e entry) isInclude() bool {
	section, _, name := e.parts()
	return (section == "include" || section == "includeif") && name == "path"
}

// A judge reports whether a key makes git run a program, given the subsection
// and the value of the key.
type judge func(middle, value string) bool

// named lists the keys whose values name programs, from the documentation of
// git and Git LFS. A star stands for any subsection.
var named = map[string]judge{
	"branch.*.pushremote":         viaHelper,
	"branch.*.remote":             viaHelper,
	"core.alternaterefscommand":   filled,
	"core.askpass":                filled,
	"core.editor":                 filled,
	"core.fsmonitor":              notBool, // true selects git's own daemon
	"core.gitproxy":               filled,
	"core.hookspath":              filled,
	"core.pager":                  filled,
	"core.sshcommand":             filled,
	"diff.external":               filled,
	"diff.*.command":              filled,
	"diff.*.textconv":             filled,
	"diff.guitool":                isPath, // git sources the file as a shell script
	"diff.tool":                   isPath,
	"difftool.*.path":             filled,
	"browser.*.path":              filled,
	"filter.*.clean":              filled,
	"filter.*.process":            filled,
	"filter.*.smudge":             filled,
	"format.outputdirectory":      leaves,
	"format.suffix":               isPath, // the end of a path to which git writes
	"gc.repackfilterto":           leaves,
	"guitool.*.cmd":               filled,
	"http.savecookies":            isTrue, // a server could then choose the contents of any file
	"http.*.savecookies":          isTrue,
	"imap.tunnel":                 filled,
	"init.templatedir":            filled, // its hooks are copied to every new repository
	"instaweb.browser":            filled,
	"instaweb.httpd":              filled,
	"interactive.difffilter":      filled,
	"lfs.customtransfer.*.path":   filled,
	"lfs.extension.*.clean":       filled,
	"lfs.extension.*.smudge":      filled,
	"lfs.standalonetransferagent": filled,
	"man.*.path":                  filled,
	"merge.*.driver":              filled,
	"merge.guitool":               isPath,
	"merge.tool":                  isPath,
	"mergetool.*.layout":          notLayout, // a shell evaluates it
	"mergetool.*.path":            filled,
	"protocol.allow":              allows,
	"protocol.*.allow":            allowsHelper,
	"rebase.instructionformat":    filled, // it can add steps that run programs
	"receive.denycurrentbranch":   updates,
	"remote.*.pushurl":            viaHelper,
	"remote.*.receivepack":        filled,
	"remote.*.uploadpack":         filled,
	"remote.*.url":                viaHelper,
	"remote.*.vcs":                filled,
	"remote.pushdefault":          viaHelper,
	"sendemail.smtpserver":        isPath,
	"sendemail.*.smtpserver":      isPath,
	"sequence.editor":             filled,
	"submodule.*.update":          func(_, value string) bool { return strings.HasPrefix(value, "!") },
	"submodule.*.url":             viaHelper,
	"uploadpack.packobjectshook":  filled,
	"url.*.insteadof":             func(base, _ string) bool { return viaHelper("", base) },
	"url.*.pushinsteadof":         func(base, _ string) bool { return viaHelper("", base) },
}

// commandSuffixes are suffixes of key names that hold commands, in git and in
// related programs.
var commandSuffixes = []string{"command", "cmd", "program", "prog", "helper", "hook", "hooks", "hookspath", "editor", "pager", "askpass", "textconv"}

// runs reports whether the entry makes git run a program.
func (e entry) runs() bool {
	section, middle, name := e.parts()
	switch {
	case section == "alias":
		return isAlias("", e.value)
	case section == "pager":
		return notBool("", e.value)
	}
	known := section + "." + name
	if middle != "" {
		known = section + ".*." + name
		if first, rest, ok := strings.Cut(middle, "."); ok && section == "lfs" || first == "customtransfer" || first == "extension" {
			known, middle = section+"."+first+".*."+name, rest
		}
	}
	if judge := named[known]; judge != nil {
		return judge(middle, e.value)
	}
	for _, end := range commandSuffixes {
		if strings.HasSuffix(name, end) {
			return notBool(middle, e.value)
		}
	}
	return false
}

// filled accepts every value except the empty one, which git ignores.
func filled(_, value string) bool { return value != "" }

// notBool accepts values that are not git booleans.
func notBool(_, value string) bool {
	switch strings.ToLower(value) {
	case "", "true", "false", "yes", "no", "on", "off":
		return false
	}
	_, err := strconv.Atoi(value)
	return err != nil
}

// isTrue accepts every value that git does not read as false. A key without a
// value is true.
func isTrue(_, value string) bool {
	switch strings.ToLower(value) {
	case "false", "no", "off", "0":
		return false
	}
	return true
}

// isAlias accepts aliases that are shell commands, that begin with git options,
// which can set any configuration, or that lead git to a program by a path. An
// alias with quotes in its first word may be any of these.
func isAlias(_, value string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(value), " ")
	return strings.HasPrefix(first, "!") || strings.HasPrefix(first, "-") || strings.ContainsAny(first, `/'"\`)
}

// isPath accepts paths.
func isPath(_, value string) bool { return strings.ContainsAny(value, `/\`) }

// leaves accepts paths that lead out of the folder to which they are relative.
func leaves(_, value string) bool { return value != "" && !filepath.IsLocal(value) }

// layout matches a layout of windows in Vim, as git documents it.
var layout = regexp.MustCompile(`^[A-Za-z,/+()@ ]*$`)

func notLayout(_, value string) bool { return !layout.MatchString(value) }

// updates accepts the value with which a push to the repository changes its
// work tree. Git then runs the hook post-index-change despite the pins.
func updates(_, value string) bool { return strings.EqualFold(value, "updateInstead") }

// allows accepts policies that let git run any transport helper.
func allows(_, value string) bool { return value != "" && !strings.EqualFold(value, "never") }

// allowsHelper accepts policies that let git run a transport that is not built
// in.
func allowsHelper(transport, value string) bool {
	switch transport {
	case "http", "https", "git", "ssh", "file":
		return false
	}
	return allows("", value)
}

// helper matches an address that git passes to a helper program, such as
// "ext::COMMAND".
var helper = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+.-]*::`)

func viaHelper(_, address string) bool { return helper.MatchString(address) }
