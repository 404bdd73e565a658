package gitconfig

import (
	"regexp"
	"strconv"
	"strings"
)

// An entry is a key of a configuration and its value. Git gives the section and
// the name of a key in lower case, and what is between them as it is.
type entry struct{ key, value string }

// parts returns the section, what is between it and the name, and the name.
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

// A judge decides whether git runs a program because of a key, by the value and
// by what the key has between its section and its name.
type judge func(middle, value string) bool

// named are the keys whose values name programs, as the documentation of git
// and of Git LFS has them. A star stands for what a repository can choose.
var named = map[string]judge{
	"branch.*.pushremote":         viaHelper,
	"branch.*.remote":             viaHelper,
	"core.alternaterefscommand":   filled,
	"core.askpass":                filled,
	"core.editor":                 filled,
	"core.fsmonitor":              notBool, // true is git's own daemon
	"core.gitproxy":               filled,
	"core.hookspath":              filled,
	"core.pager":                  filled,
	"core.sshcommand":             filled,
	"diff.external":               filled,
	"diff.*.command":              filled,
	"diff.*.textconv":             filled,
	"difftool.*.path":             filled,
	"browser.*.path":              filled,
	"filter.*.clean":              filled,
	"filter.*.process":            filled,
	"filter.*.smudge":             filled,
	"guitool.*.cmd":               filled,
	"http.savecookies":            isTrue, // a server then chooses what is in any file
	"http.*.savecookies":          isTrue,
	"imap.tunnel":                 filled,
	"init.templatedir":            filled, // its hooks are those of every new repository
	"instaweb.browser":            filled,
	"instaweb.httpd":              filled,
	"interactive.difffilter":      filled,
	"lfs.customtransfer.*.path":   filled,
	"lfs.extension.*.clean":       filled,
	"lfs.extension.*.smudge":      filled,
	"lfs.standalonetransferagent": filled,
	"man.*.path":                  filled,
	"merge.*.driver":              filled,
	"mergetool.*.path":            filled,
	"protocol.allow":              allows,
	"protocol.*.allow":            allowsHelper,
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

// endings are the ends of names under which git, and programs that it comes
// with or that keep their settings with it, have commands.
var endings = []string{"command", "cmd", "program", "prog", "helper", "hook", "hookspath", "editor", "pager", "askpass", "textconv"}

// runs reports whether git would run a program because of the entry.
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
	for _, end := range endings {
		if strings.HasSuffix(name, end) {
			return notBool(middle, e.value)
		}
	}
	return false
}

// filled accepts every value but the empty one, which git takes for none.
func filled(_, value string) bool { return value != "" }

// notBool accepts values that are no booleans of git's.
func notBool(_, value string) bool {
	switch strings.ToLower(value) {
	case "", "true", "false", "yes", "no", "on", "off":
		return false
	}
	_, err := strconv.Atoi(value)
	return err != nil
}

// isTrue accepts every value that git does not take for false. A key without a
// value is true.
func isTrue(_, value string) bool {
	switch strings.ToLower(value) {
	case "false", "no", "off", "0":
		return false
	}
	return true
}

// isAlias accepts aliases that are shell commands or set options of git, among
// which may be any configuration.
func isAlias(_, value string) bool {
	value = strings.TrimSpace(value)
	return strings.HasPrefix(value, "!") || strings.HasPrefix(value, "-")
}

// isPath accepts paths.
func isPath(_, value string) bool { return strings.ContainsAny(value, `/\`) }

// allows accepts policies that let git run any helper of a transport.
func allows(_, value string) bool { return value != "" && !strings.EqualFold(value, "never") }

// allowsHelper accepts policies that let git run a transport that is not
// built in.
func allowsHelper(transport, value string) bool {
	switch transport {
	case "http", "https", "git", "ssh", "file":
		return false
	}
	return allows("", value)
}

// helper matches an address that git gives to a program, such as "ext::COMMAND".
var helper = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+.-]*::`)

func viaHelper(_, address string) bool { return helper.MatchString(address) }
