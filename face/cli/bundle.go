package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/api/document"
)

// This file writes everything that the commands read from a cluster into one archive.

const bundleLong = `Write what the other commands read of a cluster into one archive, to send it with a report.

It has layouts, topologies, nodes, pods, volumes, events, the configuration of schedulers, the versions,
and the last lines of the logs of Tenon's programs with metrics of agents. Of each object it has the fields
that placement depends on: no environment of containers, no arguments, no Secrets, and no termination
messages but of the namespaces that you name. Texts that look like a credential are removed. With
--hash-names nobody can read the names of nodes, pods, namespaces and workloads; labels keep theirs.

map, pods, top, explain, simulate, check and doctor read the archive with --bundle FILE.

Exit code: 0 when everything was read, 3 when the archive was written and something is missing in it that
you may not read or that the API server did not answer (it is named, and in the archive), 2 after an error.`

const bundleExample = `  kubectl tenon bundle -f report.tar.gz --hash-names
  kubectl tenon doctor --bundle report.tar.gz
  kubectl tenon explain pod/trainer-0 --bundle report.tar.gz`

// BundleOptions select the content of an archive.
type BundleOptions struct {
	Hash     bool
	LogLines int
	// AgentNamespace is the namespace of the agents, whose metrics and logs the archive gets; it gets none if the
	// namespace is "".
	AgentNamespace string
	// SystemNamespace is the namespace of Tenon's other programs, whose logs the archive gets; it gets none if the
	// namespace is "".
	SystemNamespace string
	// Messages are namespaces whose pods keep their termination messages.
	Messages []string
}

// BundleContent counts what was written, and lists what could not be read.
type BundleContent struct {
	Objects, Logs, Metrics int
	Missing                []document.Limit
}

// Bundler writes an archive.
type Bundler func(ctx context.Context, k Kubeconfig, o BundleOptions, w io.Writer) (BundleContent, error)

func (a *app) bundleCommand() *cobra.Command {
	var o BundleOptions
	var file string
	c := &cobra.Command{
		Use:     "bundle -f FILE",
		Short:   "Write what the commands read of a cluster into one archive",
		Long:    bundleLong,
		Example: bundleExample,
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.writeBundle(c, file, o) },
	}
	s := c.Flags()
	s.StringVarP(&file, "filename", "f", "", `File to write, as .tar.gz; "-" is stdout.`)
	s.BoolVar(&o.Hash, "hash-names", false, "Replace names of nodes, pods, namespaces and workloads by hashes.")
	s.IntVar(&o.LogLines, "log-lines", 200, "Last lines of each log of Tenon's programs; 0 for none.")
	s.StringVar(&o.AgentNamespace, "agent-namespace", "tenon-agents",
		"Namespace of the agents whose metrics and logs are read; empty for none.")
	s.StringVar(&o.SystemNamespace, "system-namespace", "tenon-system",
		"Namespace of Tenon's other programs, whose logs are read; empty for none.")
	s.StringSliceVar(&o.Messages, "termination-messages", nil,
		"Namespaces whose pods keep the termination messages of containers, which may be ends of logs.")
	complete(c, "agent-namespace", a.namespaceNames)
	complete(c, "system-namespace", a.namespaceNames)
	complete(c, "termination-messages", a.namespaceNames)
	return c
}

const maxLogLines = 100_000

// writeBundle writes the archive into a new file, or to stdout for "-". After an error it removes the file, unless
// the archive is only incomplete.
func (a *app) writeBundle(c *cobra.Command, file string, o BundleOptions) (err error) {
	switch {
	case file == "":
		return errors.New("say where to write it: -f FILE")
	case o.LogLines < 0 || o.LogLines > maxLogLines:
		return fmt.Errorf("--log-lines %d: want 0..%d", o.LogLines, maxLogLines)
	case a.setup.Bundle == nil:
		return errors.New("this program writes no bundles")
	case a.kube.Bundle() != "":
		return errors.New("--bundle is a bundle already")
	}
	if err := a.knownNamespaces(c, map[string][]string{"agent-namespace": {o.AgentNamespace},
		"system-namespace": {o.SystemNamespace}, "termination-messages": o.Messages}); err != nil {
		return err
	}
	w, say := raw(c.OutOrStdout()), c.OutOrStdout()
	if file == "-" {
		say = c.ErrOrStderr()
	} else {
		f, denied := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if denied != nil {
			return fmt.Errorf("create the bundle: %w", denied)
		}
		defer func() {
			if bad := f.Close(); err == nil && bad != nil {
				err = fmt.Errorf("write %s: %w", file, bad)
			}
			if err != nil && !errors.Is(err, errIncomplete) {
				_ = os.Remove(file)
			}
		}()
		w = f
	}
	content, err := a.setup.Bundle(c.Context(), a.kube, o, w)
	if err != nil {
		return err
	}
	for _, m := range content.Missing {
		fmt.Fprintf(c.ErrOrStderr(), "Not in the bundle: %s (%s)\n", m.Resource, m.Reason)
	}
	if _, err = fmt.Fprintf(say, "%s has %s, %s and %s.\nSee what it says: kubectl tenon doctor --bundle %s\n", file,
		plural(content.Objects, "object"), plural(content.Logs, "log"), choose(content.Metrics, "metrics of 1 agent",
			fmt.Sprintf("metrics of %d agents", content.Metrics)), file); err != nil {
		return err
	}
	if len(content.Missing) > 0 {
		return errIncomplete
	}
	return nil
}
