package acp

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// opencode asks about the commands that its parser finds in the text of a command, and
// runs a text without any at once, in every mode (1.18.33). A shell nevertheless
// writes a file for "> FILE", and runs a program for
//
//	[[ 'a[$(PROGRAM)]' -eq 0 ]]
//
// No permission applies to such a text. Runnel therefore gives opencode a plugin that
// refuses every text that does not begin with a plain command, about which opencode
// asks. Before that command, the text may have comments, assignments, cd with a plain
// argument, and tests. It may have no loop, condition or parenthesis: in these, one
// argument that the parser does not understand, such as ${a:=(}, makes it miss the
// command.
//
// If a text has a syntax error, a shell runs the lines before the error, and the parser
// may find no command. An arithmetic expression can run a program: a[$(PROGRAM)]. So
// nothing before the first command may be one:
//   - Integer variables get digits only. A shell evaluates other values as expressions,
//     also the content of $_ and names of files.
//   - A test compares strings or examines a file. It does not compare numbers or examine
//     a variable (-v). It has no unquoted "*" or $NAME, which could become such an
//     option.
//   - No quoted word contains "[".
//
// Before the first command, only spaces, tabs and newlines end a word, as in a shell. In
// JavaScript, \s also matches other characters, which a shell takes as part of a word.
//
// A name before parentheses defines a function and is no command. The parser for
// PowerShell finds no command in "./x". The model learns why a text was refused.

// opencodeTexts is the source of the plugin. "integers" lists the integer variables of
// bash, zsh and ksh. A text must not begin with a name in "none": with these, the parsers
// for Bash and PowerShell start something other than a command, or opencode does not
// ask. No two parts of a regular expression match the same character in two ways, or a
// long text would take forever.
const opencodeTexts = `const integers = "RANDOM|SRANDOM|SECONDS|LINENO|OPTIND|HISTCMD|HISTSIZE|SAVEHIST|LINES|COLUMNS|SHLVL|TMOUT|FUNCNEST|MAILCHECK|LOGCHECK|LISTMAX|KEYTIMEOUT|DIRSTACKSIZE|BAUD|ERRNO|ARGC|PPID|BASHPID|UID|EUID|GID|EGID|TTYIDLE|TRY_BLOCK_ERROR|TRY_BLOCK_INTERRUPT|ZSH_SUBSHELL"
const word = /(?:[\w.,:@%+~\/=*-]|\$\w|\{\w[\w.,]*\})/.source
const quoted = /(?:'[^'\n[]*'|"(?:[^"$\x60\\\n[]|\$\w)*")/.source
const value = "(?:" + word + "+|" + quoted + ")"
const next = /[ \t]*(?:&&|;|\n)/.source
const variable = "(?!(?:" + integers + ")" + /\b(?!=\d*[ \t\n;&])/.source + ")" + /[A-Za-z_]\w*/.source
const assign = variable + "=" + value + "?"
const blank = /[ \t\n]|#[^\n]*\n/.source
const cd = /cd[ \t]+/.source + value + next
const operand = "(?:" + /[\w.,:@%+~\/][\w.,:@%+~\/=-]*/.source + "|" + quoted + ")"
const test = /\[[ \t]+(?:![ \t]+)?(?:-[a-hknprsuwxzGLNOS][ \t]+)?/.source + operand + "(?:[ \\t]+!?==?[ \\t]+" + operand + ")?" + /[ \t]+\]/.source
const before = [
  blank,
  cd,
  "export(?:[ \\t]+" + assign + ")+" + next,
  assign + /(?:(?=[ \t\n])|[ \t]*(?:&&|;))/.source,
  test + /[ \t]*(?:&&|\|\|)/.source,
  /(?:time|!)[ \t]/.source,
]
const command = /([A-Za-z_.\/~][\w.\/+-]*)(?=[ \t\n;&|]|$)(?!\s*(?:\\\r?\n\s*)*\()/.source
const begin = new RegExp("^(?:" + before.join("|") + ")*" + command)
const inPowerShell = new RegExp("^(?:\\r|" + blank + "|" + cd + ")*" + /([A-Za-z][\w-]*)(?=[ \t\r\n;&|]|$)(?!\s*\()/.source)
const none = /^(?:cd|chdir|pushd|popd|set-location|push-location|pop-location|declare|typeset|export|readonly|local|unset|unsetenv|function|if|then|elif|elseif|else|fi|for|foreach|select|while|until|do|done|case|esac|in|time|coproc|return|throw|exit|break|continue|try|catch|finally|switch|trap|data|param|dynamicparam|begin|process|end|clean|filter|class|enum|using|workflow|parallel|sequence|inlinescript|configuration)$/i
const isPowerShell = (shell) => /pwsh|powershell/i.test(shell ?? "")
let powerShell = process.platform === "win32" || isPowerShell(process.env.SHELL)
export const RunnelAsks = async () => ({
  config: async (settings) => { powerShell ||= isPowerShell(settings.shell) },
  "tool.execute.before": async (call, output) => {
    if (call.tool !== "bash") return
    const text = String(output.args?.command ?? "")
    const first = powerShell ? inPowerShell.exec(text) : begin.exec(text)
    if (!first || none.test(first[1])) throw new Error("Not run, because opencode may ask nobody about it. Begin the text with a plain command, such as: true;")
  },
})
`

// opencodeAskAboutTexts returns env, changed so that opencode loads opencodeTexts.
func opencodeAskAboutTexts(args, env []string) ([]string, error) {
	if slices.ContainsFunc(args, func(arg string) bool { return arg == "--pure" || strings.HasPrefix(arg, "--pure=") }) {
		return nil, runnel.Fail(runnel.SessionCreateFailed, "opencode loads no plugins with --pure, so Runnel cannot make it ask before it runs commands. Remove --pure from its command in the configuration.")
	}
	path, err := agentconn.KeepSettings("asks.js", []byte(opencodeTexts))
	if err != nil {
		return nil, err
	}
	content := ""
	for _, e := range env {
		if value, ok := variable(e, opencodeContent); ok {
			content = value
		}
	}
	config := map[string]json.RawMessage{}
	if content != "" && (json.Unmarshal(withoutTrailingCommas(withoutComments([]byte(content))), &config) != nil || config == nil) {
		return nil, runnel.Fail(runnel.SessionCreateFailed, opencodeContent+" is not a JSON object, so Runnel cannot make opencode ask before it runs commands. Correct it, or remove it.")
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	if err := appendTo(config, "plugin", (&url.URL{Scheme: "file", Path: path}).String()); err != nil {
		return nil, runnel.Fail(runnel.SessionCreateFailed, "In "+opencodeContent+", plugin is not a list, so Runnel cannot make opencode ask before it runs commands. Correct it.", err)
	}
	env = agentconn.SetVariable(env, "OPENCODE_PURE", "0") // else it loads no plugins
	return agentconn.SetVariable(env, opencodeContent, string(translate.Object(config))), nil
}
