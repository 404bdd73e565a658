package main

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// In the script for fish that cobra generates, unquotedWords takes the words of
// the line without their quotes, and the script gives them to eval: fish would
// run what stands in parentheses or behind a semicolon in a quoted prompt.
//
// The script for zsh gives eval what anyFlag matches of the last word, also of a
// quoted one. zsh would run a substitution in it.
const (
	unquotedWords = "set -l args (commandline -opc)"
	quotedWords   = "set -l args (string escape -- (commandline -opc | string replace -r -- '^~(?=/|$)' $HOME))"
	anyFlag       = "=~ '-.*='"
	plainFlag     = "=~ '^--?[A-Za-z0-9-]+='"
)

// safeScripts makes the commands that print the completion scripts for fish and
// zsh print scripts that do not execute quoted words of the command line. The
// script for fish does not replace variables in the line by their values, so it
// offers nothing if a variable names the data directory.
func safeScripts(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	safeScript(root, "fish", unquotedWords, quotedWords, func(w io.Writer, bare bool) error { return root.GenFishCompletion(w, !bare) })
	safeScript(root, "zsh", anyFlag, plainFlag, func(w io.Writer, bare bool) error {
		if bare {
			return root.GenZshCompletionNoDesc(w)
		}
		return root.GenZshCompletion(w)
	})
	withoutPowerShell(root)
}

// withoutPowerShell makes the command for PowerShell fail: the script that cobra
// generates evaluates the whole line, also commands in a quoted prompt.
func withoutPowerShell(root *cobra.Command) {
	c, _, err := root.Find([]string{"completion", "powershell"})
	if err != nil {
		return // there is no such command
	}
	c.Hidden = true
	c.RunE = func(*cobra.Command, []string) error {
		return errors.New("there is no completion for PowerShell yet, because the available script would run commands that stand in a quoted prompt. Use bash, fish or zsh")
	}
}

// safeScript replaces old by safe in the completion script for a shell. bare
// means a script without descriptions.
func safeScript(root *cobra.Command, shell, old, safe string, generate func(w io.Writer, bare bool) error) {
	c, _, err := root.Find([]string{"completion", shell})
	if err != nil {
		return // there is no such command, so nothing prints the script
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		bare, err := cmd.Flags().GetBool("no-descriptions")
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := generate(&b, bare); err != nil {
			return err
		}
		if strings.Count(b.String(), old) != 1 {
			return errors.New("the script for " + shell + " is not as expected")
		}
		_, err = io.WriteString(root.OutOrStdout(), strings.Replace(b.String(), old, safe, 1))
		return err
	}
}
