// Command kubectl-tenon is the kubectl plugin "kubectl tenon". It only connects the commands of face/cli to the cluster
// of a kubeconfig. It refuses the command lines that face/cli refuses.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/cmd/commands"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/internal/version"
)

func main() {
	// Warnings of the API server in the form of kubectl, each once.
	rest.SetDefaultWarningHandler(rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, arguments(os.Args[0], os.Args[1:]), os.Stdout, os.Stderr, setup(version.Text()))
	stop()
	os.Exit(code)
}

func setup(version string) cli.Setup { return commands.Setup(version) }

// arguments returns the arguments of the command line. kubectl completes the arguments of a plugin by calling a
// program named kubectl_complete-NAME. If this program was called by that name, through a link, arguments puts the
// command for completion in front.
func arguments(program string, args []string) []string {
	if name := strings.TrimSuffix(filepath.Base(program), ".exe"); name == completer {
		return append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return args
}

const completer = "kubectl_complete-tenon"
