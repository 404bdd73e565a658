package main

import (
	"bytes"
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// In the script for fish that cobra generates, unquotedWords takes the words of
// the line without their quotes, and the script gives them to eval: fish would
// run what stands in parentheses or behind a semicolon in a quoted prompt.
const (
	unquotedWords = "set -l args (commandline -opc)"
	quotedWords   = "set -l args (string escape -- (commandline -opc | string replace -r -- '^~(?=/|$)' $HOME))"
)

// safeFish makes the command that prints the completion script for fish print one
// that does not execute the words of the command line. That script does not
// replace variables in the line by their values, so it offers nothing if a
// variable names the data directory.
func safeFish(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	fish, _, err := root.Find([]string{"completion", "fish"})
	if err != nil {
		return // there is no such command, so nothing prints the script
	}
	fish.RunE = func(cmd *cobra.Command, _ []string) error {
		bare, err := cmd.Flags().GetBool("no-descriptions")
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := root.GenFishCompletion(&b, !bare); err != nil {
			return err
		}
		if strings.Count(b.String(), unquotedWords) != 1 {
			return errors.New("the script for fish is not as expected")
		}
		_, err = root.OutOrStdout().Write([]byte(strings.Replace(b.String(), unquotedWords, quotedWords, 1)))
		return err
	}
}
