package agentconn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMentionsOutside(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "/etc/passwd", "sub/up": "../.."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{
		"@/etc/passwd", "see @/etc/passwd.", "@../x", "@sub/../../x", "@~/.ssh/id_rsa", `@"/etc/passwd"`, `@"a b"`, "@link", "@link#L1-3", "@link,", "@sub/up/x",
		"mail@/x", "@@/x", `@a\..\..\x`, strings.Repeat("@a ", 500), "a\n@/etc/hosts", "@a.txt @/etc/hosts",
		"@a#b#/../../x", "@#/../../x", "@link#a#b", // Claude Code takes a name with a fragment that it does not know as a whole
		"@link*", "@link-", "@sub/up/", "@link\u00a0a", "@sub/up\u2003", // it ends a name at white space and at the last letter
		"@" + strings.Repeat("./", 3000) + "link",
		"@missing/../link", "@a.txt/../sub/up", "@..\u00a0a", "@sub/..\u00a0", // it removes .. before it looks for the file
		"@x#\u00a0@/etc/passwd", "@a.txt\u00a0@link", "\ufeff@/etc/passwd", // it takes other white space as the beginning of a mention, too
	} {
		if !MentionsOutside(text, dir) {
			t.Errorf("%.40q is not reported", text)
		}
	}
	for _, text := range []string{"", "@", "a @ b", "@a.txt", "@sub/a.txt, @sub", "me@example.org", "@sub/missing/x", "@./a", "@a.txt#L1-3", "@sub/#x", "@a-link", "@linkage"} {
		if MentionsOutside(text, dir) {
			t.Errorf("%q is reported", text)
		}
	}
}

// A prompt of 800 KB that mentions 400,000 paths must not occupy the session.
func TestMentionsOutsideBoundsItsLookups(t *testing.T) {
	dir := t.TempDir()
	many := strings.Repeat("@"+strings.Repeat("-/", maxMention/2)+" ", maxMentions)
	if !MentionsOutside(many, dir) {
		t.Error("it looks for every path")
	}
	if MentionsOutside(strings.Repeat("@internal/agentconn/mention_test.go, ", maxMentions), dir) {
		t.Error("a prompt with many ordinary mentions is reported")
	}
}
