package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// This file refuses arguments that commands do not have. cobra's own errors do not name the remedy, and its commands
// help and completion answer a misspelt name with a page of help, as if nothing were wrong.

// noArgs refuses all arguments. Where the command has files, an argument may be one.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 && c.Flags().Lookup("filename") != nil {
		return fmt.Errorf("%s has no command %q; files are given with -f: %s -f %s", c.CommandPath(), args[0],
			c.CommandPath(), args[0])
	}
	return cobra.NoArgs(c, args)
}

// oneArg refuses a command line that does not have the one argument of the command's usage.
func oneArg(c *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	_, want, _ := strings.Cut(c.Use, " ")
	return fmt.Errorf("want one argument, and there are %d: %s %s", len(args), c.CommandPath(), want)
}

// refuseUnknown lets cobra's commands help and completion refuse names that they do not know. It is called when root
// has its output, because the scripts of completion are written there.
func refuseUnknown(root *cobra.Command, args []string) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			show := c.Run
			c.RunE = func(c *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err == nil && found.HasSubCommands() {
					err = cobra.NoArgs(found, rest)
				}
				if err != nil {
					return err
				}
				show(c, args)
				return nil
			}
		case "completion":
			c.RunE = func(c *cobra.Command, args []string) error { return c.Help() }
		}
	}
}
