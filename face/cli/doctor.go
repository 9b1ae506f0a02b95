package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/api/document"
)

// This file reports why pods are not placed or not aligned, and which changes help.

const doctorLong = `Say what is wrong with the installation, with nodes and with pods, and what mends it.

The command reads the cluster and changes nothing. It examines the definition of NodeLayout, rights,
the admission policy, schedulers and agents; whether nodes report and what their kubelets align; and
pods that are nearly Guaranteed, that no node can ever admit, or that hold more NUMA nodes than they need.
This page explains every finding by its name:
` + document.Docs + `reference/findings.md

The exit code is 0 if nothing is wrong, 1 if there is an error or a warning, 2 where the cluster cannot
be examined, and 3 where nothing wrong was found and something could not be examined, which the output
names. With --severity error it is 1 only for errors.`

const doctorExample = `  kubectl tenon doctor
  kubectl tenon doctor --node node-a

  # Is this pod as it should be?
  kubectl tenon doctor --pod ml/trainer-0

  # In a pipeline: fail if something does not work
  kubectl tenon doctor --severity error -o json`

// DoctorOptions select the findings that doctor returns, by their objects; empty options select all.
type DoctorOptions struct {
	Node string
	Pod  string // "namespace/name"
}

// Doctor examines a cluster.
type Doctor func(ctx context.Context, k Kubeconfig, o DoctorOptions) (document.Diagnosis, error)

type doctorFlags struct {
	node, pod, severity string
	output              output
}

var severities = []string{string(document.Broken), string(document.Warned), string(document.Noted)}

func (a *app) doctorCommand() *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use:     "doctor",
		Short:   "Say what is wrong with the installation, nodes and pods, and what mends it",
		Long:    doctorLong,
		Example: doctorExample,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.doctor(c, f) },
	}
	s := c.Flags()
	s.StringVar(&f.node, "node", "", "Report only what is about this node.")
	s.StringVar(&f.pod, "pod", "", "Report only what is about this pod, [NAMESPACE/]NAME.")
	s.StringVar(&f.severity, "severity", string(document.Noted),
		"Report only what is at least as bad. One of: ("+strings.Join(severities, ", ")+").")
	f.output.bind(c, "json", "yaml", "wide")
	complete(c, "node", a.nodeNames)
	complete(c, "pod", a.podNames)
	complete(c, "severity", choices(severities...))
	return c
}

// doctor writes the findings that are at least as severe as --severity. It then returns nil; errFindings if there are
// errors or warnings; errUnread if there are none and not everything was examined. It returns another error if there
// is no diagnosis.
func (a *app) doctor(c *cobra.Command, f doctorFlags) error {
	if err := f.output.check(); err != nil {
		return err
	}
	least := document.Severity(f.severity)
	if !slices.Contains(severities, f.severity) {
		return fmt.Errorf("--severity %q is not known: want one of %s", f.severity, strings.Join(severities, ", "))
	}
	if a.setup.Doctor == nil {
		return errors.New("this program cannot examine a cluster")
	}
	o, err := a.doctorOptions(f)
	if err != nil {
		return err
	}
	d, err := a.setup.Doctor(c.Context(), a.kube, o)
	if err != nil {
		return err
	}
	kept, bad := []document.Finding{}, false
	for _, x := range d.Findings {
		if x.Severity.Rank() <= least.Rank() {
			kept, bad = append(kept, x), bad || x.Severity != document.Noted
		}
	}
	d.Findings = kept
	done, err := f.output.write(c.OutOrStdout(), d, nil)
	if !done {
		err = writeDiagnosis(c.OutOrStdout(), d, nothingFound(least, o), f.output.format == "wide")
	}
	switch {
	case err != nil:
		return err
	case bad:
		return errFindings
	case len(d.Limits) > 0:
		return errUnread
	}
	return nil
}

// doctorOptions returns the node and the pod that the flags select. A pod without a namespace is in the namespace of
// the kubeconfig.
func (a *app) doctorOptions(f doctorFlags) (DoctorOptions, error) {
	o := DoctorOptions{Node: nodeName(f.node)}
	if f.pod == "" {
		return o, nil
	}
	namespace, name, err := a.podName(f.pod)
	if err != nil {
		return o, err
	}
	if namespace == "" {
		if _, namespace, err = a.connect(); err != nil {
			return o, err
		}
	}
	o.Pod = namespace + "/" + name
	return o, nil
}

// findingIndent is the number of columns before the text of a finding. The severity stands there in its first line.
const findingIndent = 8

// The numbers of objects, and of lines of evidence for each, that are shown for a finding without -o wide.
const (
	fewObjects  = 3
	fewEvidence = 2
)

// nothingFound returns the text for an answer without findings. It names what the flags select, because a finding
// that is less severe or about another object may exist.
func nothingFound(least document.Severity, o DoctorOptions) string {
	var of []string
	if o.Node != "" {
		of = append(of, "node "+o.Node)
	}
	if o.Pod != "" {
		of = append(of, "pod "+o.Pod)
	}
	text := "nothing is wrong"
	if least != document.Noted {
		text = "nothing is as bad as " + string(least)
	}
	if len(of) > 0 {
		text += " with " + strings.Join(of, " and ")
	}
	return text
}

// writeDiagnosis writes the findings and what was examined. nothing is the text for a whole diagnosis without findings.
func writeDiagnosis(w io.Writer, d document.Diagnosis, nothing string, all bool) error {
	b := bufio.NewWriter(w)
	count := map[document.Severity]int{}
	for _, f := range d.Findings {
		count[f.Severity]++
		writeFinding(b, f, all)
	}
	examined := fmt.Sprintf("%s and %s examined", nodesText(d.Nodes), plural(d.Pods, "pod"))
	switch {
	case len(d.Findings) == 0 && len(d.Limits) > 0:
		fmt.Fprintf(b, "%s; nothing wrong was found, and not everything was examined.\n", examined)
	case len(d.Findings) == 0:
		fmt.Fprintf(b, "%s; %s.\n", examined, nothing)
	default:
		page, _, _ := strings.Cut(d.Findings[0].Page, "#")
		fmt.Fprintf(b, "%s: %s, %s, %d info.\nEach is explained by its name:\n%s\n", examined,
			plural(count[document.Broken], "error"), plural(count[document.Warned], "warning"), count[document.Noted], page)
	}
	for _, l := range d.Limits {
		writeWrapped(b, "", fmt.Sprintf("Not examined: %s: %s.", l.Resource, l.Reason))
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write findings: %w", err)
	}
	return nil
}

func plural(n int, what string) string { return choose(n, "1 "+what, fmt.Sprintf("%d %ss", n, what)) }

// writeFinding writes one finding with its objects, evidence, remedy and commands. If all is set, it leaves out
// nothing.
func writeFinding(b *bufio.Writer, f document.Finding, all bool) {
	objects, evidence := fewObjects, fewEvidence
	if all {
		objects, evidence = math.MaxInt, math.MaxInt
	}
	// The first line is wrapped with an indent of 8 columns, which the severity then replaces.
	var head strings.Builder
	text := bufio.NewWriter(&head)
	writeWrapped(text, "        ", fmt.Sprintf("%s: %s.", f.ID, f.Text))
	_ = text.Flush() // a strings.Builder does not fail
	fmt.Fprintf(b, "%-8s%s", f.Severity, head.String()[min(8, head.Len()):])
	for _, o := range f.Objects[:min(objects, len(f.Objects))] {
		line := o.String()
		if n := len(o.Pods); n > 1 {
			line += fmt.Sprintf(" (%d pods)", n)
		}
		shown := o.Evidence[:min(evidence, len(o.Evidence))]
		if len(shown) > 0 {
			line += ": " + strings.Join(shown, joint)
		}
		if more := len(o.Evidence) - len(shown); more > 0 {
			line += fmt.Sprintf("%sand %d more", joint, more)
		}
		writeWrapped(b, "        ", line)
	}
	if more := len(f.Objects) - objects; more > 0 {
		fmt.Fprintf(b, "        and %d more (-o wide shows them)\n", more)
	}
	writeWrapped(b, "        ", "Remedy: "+f.Remedy+".")
	for _, c := range f.Commands {
		fmt.Fprintf(b, "          %s\n", c)
	}
	fmt.Fprintln(b)
}
