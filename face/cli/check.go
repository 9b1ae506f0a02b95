package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file judges whether pods of a file can ever be admitted on any node, before they are created.

const checkLong = `Say whether the pods of a file can ever run on any node, and why not.

What is short now does not count: a pod passes if it would fit on one of the nodes once others have ended.
It does not pass if each node refuses it for good: the machine is too small under its kubelet's configuration,
or a taint, a selector or another rule keeps the pod away. The command also warns of pods that are nearly
Guaranteed, for which no kubelet aligns CPUs or memory, and of annotations, labels and names of schedulers that
are probably misspelt.

The exit code is 0 if all pods pass, 1 if one does not, 3 if the pods of an object of the file cannot be
judged, and 2 after an error, which is on stderr.`

const checkExample = `  kubectl tenon check -f pod.yaml
  kubectl tenon check -f manifests/
  helm template ./chart | kubectl tenon check -f -

  # Without a cluster, for a machine of the catalogue or a file
  kubectl tenon check -f pod.yaml --machine gpu-8`

func (a *app) checkCommand() *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:     "check -f FILE",
		Short:   "Say whether pods of a file can ever run on any node",
		Long:    checkLong,
		Example: checkExample,
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.check(c, f) },
	}
	c.SetFlagErrorFunc(kustomization)
	s := c.Flags()
	s.StringArrayVarP(&f.files, "filename", "f", nil,
		filesHelp)
	s.BoolVarP(&f.recursive, "recursive", "R", false, recursiveHelp)
	s.StringArrayVar(&f.machines, "machine", nil,
		"Machine, as a file in text form or a name of the catalogue, in place of a cluster. This flag can be repeated.")
	s.StringArrayVar(&f.machines, "snapshot", nil,
		"File of tenon-agent snapshot, in place of a cluster. This flag can be repeated.")
	s.StringArrayVar(&f.configs, "kubelet-config", nil,
		"File with the KubeletConfiguration of the machines: one for all, or one for each.")
	s.StringVar(&f.nodes, "nodes", "",
		`File with the output of "kubectl get nodelayouts,layoutbases,nodes,pods -A -o json", in place of a cluster.`)
	s.BoolVar(&f.askServer, "ask-server", true,
		"Ask the API server by a dry run whether it accepts the pods, and judge them as it would store them.")
	f.output.bind(c, "json", "yaml")
	complete(c, "machine", a.machineNames)
	return c
}

// check judges the workloads of the files and writes the result. It returns errNotAdmitted or errNotJudged after a
// result that does not pass, and another error if there is no result.
func (a *app) check(c *cobra.Command, f simulateFlags) error {
	switch {
	case len(f.files) == 0:
		return errors.New("say what to check: -f FILE")
	case len(f.machines) > 0 && f.nodes != "":
		return errors.New("machines and --nodes cannot both be given")
	}
	if err := f.output.check(); err != nil {
		return err
	}
	all, err := a.inputs(c, f)
	if err != nil {
		return err
	}
	stage, _, err := a.vary(f, all)
	if err != nil {
		return err
	}
	if ask := a.setup.Stages.Ask; ask != nil && f.askServer && len(f.machines) == 0 && f.nodes == "" {
		if stage, err = ask(c.Context(), a.kube, stage); err != nil {
			return err
		}
	}
	namespace := cmp.Or(a.kube.Namespace(), a.kube.fileNamespace, "default")
	if stage, err = a.findClaims(c.Context(), f, stage, namespace, all.files); err != nil {
		return err
	}
	out, left, err := checkFiles(c, stage, all.files, namespace)
	if err != nil {
		return err
	}
	if len(out)+len(left.Groups) == 0 {
		return errNoWorkloads
	}
	groups := checkGroups(stage, left.Groups, out)
	doc := checkDocumentOf(out, stage.Nodes(), all.problems, coarse(stage.Nodes()))
	doc.NoPods, doc.NotJudged = append(doc.NoPods, left.NoPods...), append(doc.NotJudged, left.NotJudged...)
	doc.Groups, doc.Partial = groups, partialText(stage)
	fails := slices.ContainsFunc(groups, func(g checkedGroup) bool { return !g.Passes })
	doc.Passes = doc.Passes && len(left.NotJudged) == 0 && !fails
	done, err := f.output.write(c.OutOrStdout(), doc, nil)
	if !done {
		err = writeChecks(c.OutOrStdout(), out, groups, stage.Nodes(), all.problems)
	}
	switch {
	case err != nil:
		return err
	case fails || slices.ContainsFunc(out, func(x checked) bool { return !x.passes() }):
		return errNotAdmitted
	case len(left.NotJudged) > 0:
		return errNotJudged
	}
	return nil
}

// checkFiles judges the workloads of files. left has the other objects; it warns of each.
func checkFiles(c *cobra.Command, stage Stage, files []workloadFile, namespace string) (out []checked,
	left whatif.Left, err error) {
	for _, file := range files {
		workloads, more, err := file.workloads(stage, namespace)
		if err != nil {
			return nil, left, err
		}
		left.NoPods, left.NotJudged = append(left.NoPods, more.NoPods...), append(left.NotJudged, more.NotJudged...)
		left.Groups = append(left.Groups, more.Groups...)
		warnLeft(c.ErrOrStderr(), file.name, more)
		for _, w := range workloads {
			if err := c.Context().Err(); err != nil {
				return nil, left, err
			}
			if w.Refused != "" {
				return nil, left, fmt.Errorf("workload file %s: %s %s/%s: the API server refuses it: %s", file.name, w.Kind,
					w.Namespace, w.Name, w.Refused)
			}
			x := checkOn(stage.Nodes(), w)
			x.partial = partialText(stage)
			out = append(out, x)
		}
	}
	return out, left, nil
}

// checked is one workload, with the nodes that can take its pods and the reasons of the others.
type checked struct {
	workload *whatif.Workload
	whatif.Lasting
	warnings []string
	partial  string // what of the cluster was not read; see [Partial]
}

func (c checked) passes() bool { return len(c.Ever) > 0 }

// fewGroups bounds the groups of nodes with the same reasons that check writes for one workload.
const fewGroups = 8

// checkOn judges a workload on every node, as if that were the only one.
func checkOn(nodes []whatif.Node, w *whatif.Workload) checked {
	out := checked{workload: w, Lasting: whatif.Rules{}.Lasting(nodes, w.Want)}
	for _, a := range whatif.NearlyGuaranteed(w.Want.Pod, w.Unequal, nodes) {
		out.warnings = append(out.warnings, a.String())
	}
	out.warnings = append(out.warnings, w.Misspelt...)
	return out
}

// findClaims returns a stage that finds the claims of the pods of files. A stage of files or machines asks no cluster.
func (a *app) findClaims(ctx context.Context, f simulateFlags, s Stage, namespace string,
	files []workloadFile) (Stage, error) {
	find, has := a.setup.Stages.Claims, false
	in := ClaimFiles{Namespace: namespace, Alone: len(f.machines) > 0 || f.nodes != ""}
	for _, file := range files {
		in.Files = append(in.Files, file.data)
		has = has || bytes.Contains(file.data, []byte("resourceClaim"))
	}
	if find == nil || !has {
		return s, nil
	}
	return find(ctx, a.kube, s, in)
}

// unjudged lists what check does not judge about the pods. If it has looked for their claims, it names the devices in
// place of the claims.
func (c checked) unjudged() []string {
	out := slices.Clone(c.workload.Unjudged)
	if i := slices.Index(out, "resource claims"); i >= 0 && len(c.workload.Claims)+len(c.workload.LackedClaims) > 0 {
		out[i] = "which nodes have devices for its claims"
	}
	return out
}

// writeChecks writes the results as text.
func writeChecks(w io.Writer, all []checked, groups []checkedGroup, on []whatif.Node,
	problems []document.Problem) error {
	b := bufio.NewWriter(w)
	for i, x := range all {
		if i > 0 {
			fmt.Fprintln(b)
		}
		x.write(b, on)
	}
	for i, g := range groups {
		if i+len(all) > 0 {
			fmt.Fprintln(b)
		}
		g.write(b)
	}
	if n := len(problems); n > 0 {
		fmt.Fprintf(b, "\nThe NUMA nodes of %s are not known: kubelets there may refuse the pods.\n\n", nodesText(n))
		writeProblems(b, problems, fewNodes, "")
	}
	writeAssumed(b, coarse(on))
	if !slices.ContainsFunc(all, func(x checked) bool { return x.workload.Asked }) {
		fmt.Fprintln(b, "\nNo API server was asked whether it accepts the pods.")
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write check: %w", err)
	}
	return nil
}

// writeAssumed names the nodes that are judged by amounts alone, and what is assumed about them.
func writeAssumed(b *bufio.Writer, names []string) {
	if len(names) == 0 {
		return
	}
	list := strings.Join(names[:min(fewNodes, len(names))], ", ")
	if more := len(names) - fewNodes; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	fmt.Fprintln(b)
	writeWrapped(b, "", fmt.Sprintf("%s estimated by amounts: policies and options of CPU and memory managers are "+
		"assumed, and kubelets there may refuse the pods: %s",
		choose(len(names), "1 node is", nodesText(len(names))+" are"), list))
}

// write writes the sentence about a pod of the workload, and then what it is based on.
func (c checked) write(b *bufio.Writer, on []whatif.Node) {
	s := c.summary(on)
	writeWrapped(b, "", c.workload.String()+": "+s.Text+".")
	switch {
	case len(on) == 0:
	case !c.passes():
		fmt.Fprintf(b, "  It %s.\n", choose(len(on), "cannot run on the only node", "can run on none of "+nodesText(len(on))))
	default:
		fmt.Fprintf(b, "  It can run on %d of %s; there is room for a pod of it on %d now.\n", len(c.Ever),
			nodesText(len(on)), len(c.Now))
	}
	for _, r := range c.Refusals[:min(fewGroups, len(c.Refusals))] {
		writeWrapped(b, "  ", onWhich(r, false)+":")
		for _, reason := range r.Reasons {
			writeWrapped(b, "    ", reason.Text())
			if !c.passes() {
				writeWrapped(b, "      ", "Remedy: "+reason.Remedy())
			}
		}
	}
	if more := len(c.Refusals) - fewGroups; more > 0 {
		fmt.Fprintf(b, "  ... and %d other reasons\n", more)
	}
	for _, text := range c.warnings {
		writeWrapped(b, "  ", "Warning: "+text+".")
	}
	if c.workload.Asked {
		fmt.Fprintln(b, "  The API server accepts the pod (asked by a dry run).")
	}
	for _, text := range c.workload.Claims {
		writeWrapped(b, "  ", strings.ToUpper(text[:1])+text[1:]+".")
	}
	if unjudged := c.unjudged(); len(unjudged) > 0 {
		writeWrapped(b, "  ", "Not judged: "+strings.Join(unjudged, ", ")+".")
	}
}

// checkDocument is what check writes with "-o json" and "-o yaml".
type checkDocument struct {
	Kind      string            `json:"kind"` // "PodCheck"
	Passes    bool              `json:"passes"`
	Workloads []checkedDocument `json:"workloads"`
	// Groups are the PodGroups of the files, and the other groups that pods of the files name.
	Groups   []checkedGroup     `json:"groups,omitempty"`
	NotKnown []document.Problem `json:"notKnown"` // nodes whose NUMA nodes are not known
	Coarse   []string           `json:"coarse"`   // nodes that are judged by amounts: their managers are assumed
	NoPods   []string           `json:"noPods"`   // objects that have no pods, as far as the program knows
	// NotJudged are objects whose pods are not judged, each with the reason. A file with such objects does not pass.
	NotJudged []string `json:"notJudged"`
	// Partial is as in PodExplanation.
	Partial string `json:"partial,omitempty"`
}

type checkedDocument struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	QoS       string `json:"qos"`
	Passes    bool   `json:"passes"`
	// Summary is the one sentence about a pod of the workload.
	Summary document.Sentence `json:"summary"`
	// Ever are the nodes on which a pod can run once others have ended, and Now the nodes with room for one pod now.
	Ever     []string          `json:"ever"`
	Now      []string          `json:"now"`
	Refusals []refusalDocument `json:"refusals"` // of the other nodes; lacks that other pods cause are left out
	Warnings []string          `json:"warnings"`
	Unjudged []string          `json:"unjudged"`
	// Claims describes the claims of devices (DRA) that the pods name, as far as they exist; Warnings has the others.
	Claims []string `json:"claims,omitempty"`
	// Asked is set if the API server has accepted the pod in a dry run. check then judges the pod as the server would
	// store it.
	Asked bool `json:"asked"`
}

func checkDocumentOf(all []checked, on []whatif.Node, problems []document.Problem, coarse []string) checkDocument {
	out := checkDocument{Kind: "PodCheck", Passes: true, NotKnown: append([]document.Problem{}, problems...),
		Coarse: append([]string{}, coarse...), NoPods: []string{}, NotJudged: []string{}}
	out.Workloads = document.Each(all, func(x checked) checkedDocument {
		w := x.workload
		out.Passes = out.Passes && x.passes()
		return checkedDocument{
			Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, QoS: document.QoSName(w.Want.Pod.QoS), Passes: x.passes(),
			Summary: document.SentenceOf(x.summary(on)),
			Ever:    append([]string{}, x.Ever...), Now: append([]string{}, x.Now...),
			Refusals: document.Each(x.Refusals, func(r whatif.Refusal) refusalDocument {
				return refusalDocument{r.Nodes, bar(r), string(r.Error), document.Each(r.Reasons, document.ReasonOf)}
			}),
			Warnings: append([]string{}, x.warnings...), Unjudged: append([]string{}, x.unjudged()...),
			Claims: w.Claims, Asked: w.Asked,
		}
	})
	return out
}
