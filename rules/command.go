package rules

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// maxCommand is the maximum length of a command in bytes. No rule allows a
// longer command, and deny rules ask a person about it.
const maxCommand = 16 << 10

// A commandPattern matches a command by its words.
type commandPattern struct {
	words []string
	more  bool // further words may follow
}

// parsePattern parses the pattern of a rule: a command, or the first words of a
// command and a final word *.
func parsePattern(pattern string) (commandPattern, error) {
	if pattern == "*" {
		return commandPattern{more: true}, nil
	}
	fixed, more := strings.CutSuffix(pattern, " *")
	words, err := simpleCommand(fixed)
	return commandPattern{words, more}, err
}

// String returns the pattern in its canonical form, in which rules are stored.
func (p commandPattern) String() string {
	out := make([]string, len(p.words))
	for i, w := range p.words {
		out[i] = quoted(w)
	}
	if p.more {
		out = append(out, "*")
	}
	return strings.Join(out, " ")
}

// quoted returns a word quoted so that every shell reads it literally.
func quoted(word string) string {
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plainRune(r) }) < 0 && word[0] != '=' && !strings.Contains(word, "~") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'"'"'`) + "'"
}

// allows reports whether an allow rule with this pattern matches a simple
// command.
func (p commandPattern) allows(words []string) bool { return p.refuses(words) == "" }

// refuses returns why an allow rule with this pattern does not match a simple
// command; "" if the rule matches.
func (p commandPattern) refuses(words []string) string {
	n := len(p.words)
	switch {
	case !p.more && slices.Equal(words, p.words):
		return ""
	case p.more && n == 0:
		return "no rule allows every command"
	case !p.more || len(words) < n || !slices.Equal(words[:n], p.words):
		return "the command has other words than the rule"
	}
	if why := checkWildcard(p); why != "" { // an earlier version may have stored the rule
		return "no rule allows the command with any arguments: " + why
	}
	if runsOthers(words, n) {
		return "the command has an option that may run another command or write to a file"
	}
	return ""
}

// complexText is the reason why a text is not one simple command of literal
// words.
type complexText string

// Error implements error. It leaves out the reason, because the error for the
// pattern of a rule uses the same text.
func (complexText) Error() string { return "not one simple command of literal words" }

// whyNotSimple returns why no allow rule matches a command for which
// simpleCommand failed with err.
func whyNotSimple(err error) string {
	if why, ok := errors.AsType[complexText](err); ok {
		return "the command " + string(why) + "; a rule that allows matches one simple command of literal words"
	}
	return "the command is " + err.Error()
}

var errTooLong = fmt.Errorf("longer than %d bytes", maxCommand)

// simpleCommand returns the words of a text that every POSIX shell runs as one
// simple command with exactly these words, whatever the values of variables and
// the contents of folders are. It fails for everything else: operators, pipes,
// substitutions, redirections, assignments, globs, tildes, comments, line ends.
func simpleCommand(text string) ([]string, error) {
	if len(text) > maxCommand {
		return nil, errTooLong
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, complexText("has a line end or another invisible character")
	}
	file, err := parse(text)
	if err != nil {
		return nil, complexText("cannot be read as bash reads it")
	}
	call, err := onlyCall(file)
	if err != nil {
		return nil, err
	}
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		var ok bool
		if words[i], ok = literal(w); !ok {
			return nil, complexText("has a variable, a substitution, a glob or another word that shells may change")
		}
	}
	return words, nil
}

// onlyCall returns the simple command of a file that contains nothing else.
func onlyCall(file *syntax.File) (*syntax.CallExpr, error) {
	switch {
	case len(file.Stmts) > 1:
		return nil, complexText("has several commands")
	case len(file.Last) > 0:
		return nil, complexText("has a comment")
	case len(file.Stmts) == 0:
		return nil, complexText("is empty")
	}
	st := file.Stmts[0]
	call, ok := st.Cmd.(*syntax.CallExpr)
	switch {
	case len(st.Redirs) > 0:
		return nil, complexText("has a redirection")
	case len(st.Comments) > 0:
		return nil, complexText("has a comment")
	case st.Negated || st.Background || st.Coprocess || st.Disown || st.Semicolon.IsValid():
		return nil, complexText("has an operator such as ;, & or !")
	case !ok:
		if list, ok := st.Cmd.(*syntax.BinaryCmd); ok && (list.Op == syntax.Pipe || list.Op == syntax.PipeAll) {
			return nil, complexText("has a pipe")
		} else if ok {
			return nil, complexText("has several commands")
		}
		return nil, complexText("is more than a command, such as a loop, a condition or a subshell")
	case len(call.Assigns) > 0:
		return nil, complexText("sets a variable")
	case len(call.Args) == 0:
		return nil, complexText("is empty")
	}
	return call, nil
}

// parse parses a text as bash does. It returns an error if the parser panics.
func parse(text string) (file *syntax.File, err error) {
	defer func() {
		if recover() != nil {
			file, err = nil, errors.New("the parser failed")
		}
	}()
	return syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
}

// literal returns the value of a word without its quotes. It reports false if a
// POSIX shell may read the word as another value.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if !plainText(p.Value, b.Len() == 0) { // also behind empty quotes: zsh expands ''=name
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar || strings.HasSuffix(p.Value, `\`) { // in fish, the backslash escapes the quote
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			s, ok := doubleQuoted(p)
			if !ok {
				return "", false
			}
			b.WriteString(s)
		default:
			return "", false
		}
	}
	return b.String(), true
}

// doubleQuoted returns the value of a text in double quotes. It reports false
// if the text contains an expansion, or "!", which interactive shells expand.
func doubleQuoted(q *syntax.DblQuoted) (string, bool) {
	var b strings.Builder
	for _, part := range q.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || q.Dollar || strings.ContainsAny(lit.Value, "!") {
			return "", false
		}
		b.WriteString(unescaped(lit.Value, "$`\"\\"))
	}
	return b.String(), !q.Dollar
}

// unescaped removes each backslash that stands before a byte of special, or
// before any byte if special is "". It also removes a backslash together with a
// line end after it.
func unescaped(s, special string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if s[i+1] == '\n' {
				i++
				continue
			}
			if special == "" || strings.IndexByte(special, s[i+1]) >= 0 {
				i++
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// plainText reports whether every POSIX shell reads unquoted text literally.
// first says that the text begins a word.
func plainText(s string, first bool) bool {
	for i, r := range s {
		if !plainRune(r) {
			return false
		}
		// Shells expand a tilde at the beginning of a word and after = or :, and zsh
		// expands =name to a path.
		begins := i == 0 && first
		if r == '=' && begins || r == '~' && (i == 0 || s[i-1] == '=' || s[i-1] == ':') {
			return false
		}
	}
	return true
}

func plainRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_./:@%+,=^~-", r)
}

// unwrapped returns the script if command only starts a shell that runs it, and
// otherwise command itself. Some agents add such a shell to every command.
func unwrapped(command string) string {
	words, err := simpleCommand(command)
	if err != nil || len(words) != 3 || words[1] != "-c" && words[1] != "-lc" {
		return command
	}
	dir, shell := path.Split(words[0])
	if !slices.Contains([]string{"", "/bin/", "/usr/bin/"}, dir) || !slices.Contains([]string{"bash", "sh", "zsh"}, shell) {
		return command
	}
	return words[2]
}

// A script holds every command of a text, at any depth. Deny rules are matched
// against each of them.
type script struct {
	commands [][]word
	unclear  bool // the text may run other commands, too
}

// A word is a word of a command as far as it is known before the shell runs.
type word struct {
	text  string
	known bool
}

const maxNested = 4 // maximum nesting of scripts in the arguments of commands

// parseScript returns the commands of a text.
func parseScript(text string) script {
	var s script
	s.add(text, 0)
	return s
}

func (s *script) add(text string, depth int) {
	file, err := (*syntax.File)(nil), errTooLong
	if len(text) <= maxCommand && depth <= maxNested {
		file, err = parse(text)
	}
	if err != nil || text == "" {
		s.unclear = true
		return
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			s.addCall(call, depth)
		}
		return true
	})
}

// addCall adds a command, and the commands in its arguments if it runs others.
func (s *script) addCall(call *syntax.CallExpr, depth int) {
	words := make([]word, len(call.Args))
	for i, w := range call.Args {
		words[i] = known(w)
	}
	s.commands = append(s.commands, words)
	if !words[0].known || !slices.Contains(hosts, path.Base(words[0].text)) {
		return
	}
	if len(words) == 1 {
		s.unclear = true // the command reads its script from stdin
		return
	}
	more := append(slices.Clone(words), word{}) // the command may add words from its input
	for i, w := range words[1:] {
		s.commands = append(s.commands, more[i+1:])
		if w.known && strings.ContainsAny(w.text, " \t\n;|&") {
			s.add(w.text, depth+1)
		}
	}
}

// known returns the value of a word if it is known before the shell runs.
func known(w *syntax.Word) word {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "*?[{~") && p.Value != "{}" {
				return word{}
			}
			b.WriteString(unescaped(p.Value, ""))
		case *syntax.SglQuoted:
			if p.Dollar {
				return word{}
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return word{}
				}
				b.WriteString(unescaped(lit.Value, "$`\"\\"))
			}
		default:
			return word{}
		}
	}
	return word{b.String(), true}
}

// denies reports whether a deny rule with this pattern matches any command of a
// script.
func (p commandPattern) denies(s script) tri {
	found := no
	if s.unclear {
		found = unknown
	}
	for _, words := range s.commands {
		found = max(found, p.deniesOne(words))
	}
	return found
}

func (p commandPattern) deniesOne(words []word) tri {
	for i, want := range p.words {
		if i == len(words) {
			return no
		}
		w := words[i]
		if !w.known {
			return unknown // it may expand to several words, or to none
		}
		if w.text != want && (i > 0 || strings.Contains(want, "/") || path.Base(w.text) != want) {
			return no
		}
	}
	if p.more || len(words) == len(p.words) {
		return yes
	}
	if !words[len(p.words)].known {
		return unknown
	}
	return no
}
