package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

const topLong = `Show how fragmented nodes are: the most that is free on one NUMA node beside what is free in all,
and how many more pods of a shape fit.

A shape is what one Guaranteed pod of one container asks for. Devices are named by their resource, or
by the part behind the slash where only one resource ends like that. Without --shape the command takes
the shapes that the cluster runs most.`

const topExample = `  # Where is the room, and for how many pods of the usual shapes?
  kubectl tenon top

  # For how many pods of this shape, on the nodes with a label?
  kubectl tenon top -l pool=gpu --shape cpu=4,memory=8Gi,gpu=1`

const (
	fewShapes = 3 // usual shapes that are shown without --shape
	maxShapes = 8 // shapes that --shape may give
)

// topFlags are the choices of the command.
type topFlags struct {
	shapes   []string
	selector string
	watch    bool
	output   output
}

func (a *app) topCommand() *cobra.Command {
	var f topFlags
	c := &cobra.Command{
		Use:     "top [NODE...]",
		Short:   "Show the largest free NUMA node of each node, and how many more pods fit",
		Long:    topLong,
		Example: topExample,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.output.check(); err != nil {
				return err
			}
			if f.selector != "" && len(args) > 0 {
				return errors.New("a NODE and --selector cannot both be given")
			}
			return a.repeat(c, f.watch, func(ctx context.Context, w io.Writer) error {
				t, err := a.top(ctx, f, nodeNamesIn(args))
				if err != nil {
					return err
				}
				if done, err := f.output.write(w, t, t.names()); done {
					return err
				}
				return t.write(w, f.output.format == "wide")
			})
		},
	}
	c.Flags().StringArrayVar(&f.shapes, "shape", nil,
		"RESOURCE=AMOUNT[,RESOURCE=AMOUNT...] of a pod, such as cpu=4,memory=8Gi,gpu=1. This flag can be repeated.")
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "Show only the nodes that this label selector selects.")
	bindWatch(c, &f.watch)
	f.output.bind(c, "json", "yaml", "name", "wide")
	c.ValidArgsFunction = others(a.nodeNames)
	return c
}

// capacity is what top writes with "-o json" and "-o yaml".
type capacity struct {
	Kind   string   `json:"kind"` // "NodeCapacity"
	Shapes []shape  `json:"shapes"`
	Nodes  []roomOn `json:"nodes"`
	// NotKnown are nodes without a usable report.
	NotKnown []document.Problem `json:"notKnown"`
	// Partial is as in PodExplanation. The usual shapes come from pods that you may read.
	Partial string `json:"partial,omitempty"`
}

// shape is a shape of pods whose slots are counted. A slot is room for one more pod.
type shape struct {
	// Shape is the shape as --shape takes it; "+" joins containers.
	Shape      string             `json:"shape"`
	Containers []document.Request `json:"containers"`
	// Percent is the share of the cluster's pods that have this shape; absent if the user gave the shape.
	Percent int64 `json:"percent,omitempty"`
	// Slots is how many more pods fit on all nodes together.
	Slots int `json:"slots"`

	pod  *place.Pod
	text string
}

// roomOn has the free amounts of one node.
type roomOn struct {
	Name    string `json:"name"`
	Quality string `json:"quality"`
	Policy  string `json:"policy"`
	CPUs    *room  `json:"cpus,omitempty"` // absent where the kubelet does not pin CPUs
	// Memory and hugepages are in bytes, and absent where the kubelet does not pin them.
	Memory  []room `json:"memory"`
	Devices []room `json:"devices"`
	// ClaimDevices are the devices of each driver that no claim holds, that nothing shares and that are not kept; absent
	// if there are none, or if claims were not read.
	ClaimDevices []room `json:"claimDevices,omitempty"`
	Slots        []int  `json:"slots"` // by shape
	// Kept is room that is kept for pods that have not come yet; slots are beside it.
	Kept []document.Kept `json:"kept,omitempty"`
}

// room is the free amount of one resource: on the NUMA node that has the most, and on all NUMA nodes together.
type room struct {
	Resource string `json:"resource"`
	Largest  int64  `json:"largest"`
	Free     int64  `json:"free"`
	// Kept is how many more devices of claims are free and kept for pods that have not come yet.
	Kept int64 `json:"kept,omitempty"`
}

// top reads the nodes, and counts what is free on them and how many more pods of each shape fit. names selects nodes;
// all if it is empty and the flags have no selector.
func (a *app) top(ctx context.Context, f topFlags, names []string) (*capacity, error) {
	stage, problems, _, err := a.setup.Stages.Cluster(ctx, a.kube)
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	nodes := slices.Clone(stage.Nodes())
	a.setup.Stages.Slots.dropGone(nodes)
	if f.selector != "" {
		if names, err = selectedNodes(ctx, stage, f.selector); err != nil {
			return nil, err
		}
	}
	if len(names) > 0 {
		if err := stageKnows(nodes, names); err != nil {
			return nil, err
		}
		nodes = slices.DeleteFunc(nodes, func(n whatif.Node) bool { return !slices.Contains(names, n.Name) })
		problems = slices.DeleteFunc(problems, func(p document.Problem) bool { return !slices.Contains(names, p.Node) })
	}
	out := &capacity{Kind: "NodeCapacity", Nodes: []roomOn{},
		NotKnown: append([]document.Problem{}, sortedProblems(problems)...), Partial: partialText(stage)}
	if out.Shapes, err = shapesOf(f.shapes, nodes); err != nil {
		return nil, err
	}
	if len(f.shapes) == 0 {
		out.Shapes = usualShapes(stage.Usual())
	}
	for _, n := range nodes {
		if n.State == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("count on node %s: %w", n.Name, err)
		}
		r := roomOf(n)
		r.Kept = keptOn(n)
		r.ClaimDevices = claimRooms(claimsOn(stage).Node(n.Name))
		for i := range out.Shapes {
			slots := a.setup.Stages.Slots.count(out.Shapes[i].pod, n)
			r.Slots = append(r.Slots, slots)
			out.Shapes[i].Slots += slots
		}
		out.Nodes = append(out.Nodes, r)
	}
	return out, nil
}

// keptOn returns the room that is kept on a node, by request, also for pods that hold nothing.
func keptOn(n whatif.Node) (out []document.Kept) {
	for _, name := range slices.Sorted(maps.Keys(n.Kept)) {
		out = append(out, document.Kept{Request: name, Pods: int(n.Kept[name]["pods"])})
	}
	return out
}

// stageKnows returns an error if one of the names is not the name of a node.
func stageKnows(nodes []whatif.Node, names []string) error {
	var known []string
	for i := range nodes {
		known = append(known, nodes[i].Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return unknownNode(name, known)
		}
	}
	return nil
}

// roomOf returns what is free on a node.
func roomOf(n whatif.Node) roomOn {
	u := n.State.Usage
	out := roomOn{Name: n.Name, Quality: n.State.Quality.String(), Policy: u.Rules.Topology.Policy.String(),
		Memory: []room{}, Devices: []room{}, Slots: []int{}}
	if u.Rules.CPU.Static {
		cpus := room{Resource: "cpu", Free: int64(u.FreeCPUs().Len())}
		for _, x := range u.Machine.NUMAs() {
			cpus.Largest = max(cpus.Largest, int64(x.CPUs.AndLen(u.FreeCPUs())))
		}
		out.CPUs = &cpus
	}
	if u.Rules.Memory.Static {
		for _, k := range u.Kinds() {
			r, all := room{Resource: k}, int64(0)
			for i, x := range u.Machine.NUMAs() {
				free := u.FreeMemory(i, k)
				r.Largest, r.Free, all = max(r.Largest, free), r.Free+free, all+x.Capacity(k)
			}
			if all > 0 || k == topo.Memory {
				out.Memory = append(out.Memory, r)
			}
		}
	}
	for at, res := range u.Machine.Resources() {
		r := room{Resource: res.Name, Free: int64(len(u.FreeDevices(res.Name)))}
		for i := range u.Machine.NUMAs() {
			r.Largest = max(r.Largest, u.FreeDevicesOn(at, 1<<uint(i)))
		}
		out.Devices = append(out.Devices, r)
	}
	return out
}

// usualShapes returns the fewShapes most frequent shapes of pods.
func usualShapes(pods []*place.Pod) (out []shape) {
	var each []score.Share
	for _, p := range pods {
		each = append(each, score.Share{Pod: p, Weight: 1})
	}
	all := score.NewMix(each).Shares()
	total := int64(0)
	for _, s := range all {
		total += s.Weight
	}
	for _, s := range all {
		out = append(out, shape{Shape: document.Shape(s.Pod),
			Containers: document.Each(s.Pod.Containers, document.RequestOf),
			Percent:    (s.Weight*100 + total/2) / total, pod: s.Pod, text: requestText(s.Pod)})
	}
	slices.SortStableFunc(out, func(a, b shape) int {
		return cmp.Or(cmp.Compare(b.Percent, a.Percent), strings.Compare(a.text, b.text))
	})
	return out[:min(fewShapes, len(out))]
}

func requestText(p *place.Pod) string {
	var out []string
	for _, c := range p.Containers {
		out = append(out, document.Demand(c))
	}
	return strings.Join(out, " + ")
}

// shapesOf parses the values of --shape. A shape may name only resources that one of the nodes has.
func shapesOf(args []string, nodes []whatif.Node) (out []shape, err error) {
	if len(args) > maxShapes {
		return nil, fmt.Errorf("--shape: %d shapes, at most %d", len(args), maxShapes)
	}
	names := map[string]bool{}
	for _, n := range nodes {
		if n.State == nil {
			continue
		}
		for _, k := range n.State.Machine.Kinds() {
			names[k] = true
		}
		for _, r := range n.State.Machine.Resources() {
			names[r.Name] = true
		}
	}
	for _, arg := range args {
		c := place.Container{Name: "main"}
		for item := range strings.SplitSeq(arg, ",") {
			if err := addTo(&c, item, slices.Sorted(maps.Keys(names))); err != nil {
				return nil, fmt.Errorf("--shape %q: %w", arg, err)
			}
		}
		slices.SortFunc(c.Memory, func(a, b place.Amount) int { return strings.Compare(a.Kind, b.Kind) })
		slices.SortFunc(c.Devices, func(a, b place.Count) int { return strings.Compare(a.Resource, b.Resource) })
		p := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{c}}
		out = append(out, shape{Shape: document.Shape(p), Containers: document.Each(p.Containers, document.RequestOf), pod: p,
			text: requestText(p)})
	}
	return out, nil
}

// addTo adds one RESOURCE=AMOUNT to a container. known are the kinds of memory and the devices that nodes have.
func addTo(c *place.Container, item string, known []string) error {
	name, value, ok := strings.Cut(item, "=")
	q, err := resource.ParseQuantity(value)
	if !ok || err != nil || q.Sign() <= 0 || !quantity.Within(q, whatif.MaxAmount/1000) {
		return fmt.Errorf("%q: want RESOURCE=AMOUNT, for example cpu=4 or memory=8Gi", item)
	}
	if name == "cpu" {
		if c.MilliCPU != 0 {
			return fmt.Errorf("cpu is given twice")
		}
		c.MilliCPU = q.MilliValue()
		return nil
	}
	if name != topo.Memory && !strings.HasPrefix(name, "hugepages-") {
		if name, err = deviceNamed(name, known); err != nil {
			return err
		}
		if slices.ContainsFunc(c.Devices, func(d place.Count) bool { return d.Resource == name }) {
			return fmt.Errorf("%s is given twice", name)
		}
		c.Devices = append(c.Devices, place.Count{Resource: name, N: q.Value()})
		return nil
	}
	if slices.ContainsFunc(c.Memory, func(a place.Amount) bool { return a.Kind == name }) {
		return fmt.Errorf("%s is given twice", name)
	}
	c.Memory = append(c.Memory, place.Amount{Kind: name, Bytes: q.Value()})
	return nil
}

// deviceNamed returns the resource with a name, or the only resource whose part after the slash is that name.
func deviceNamed(name string, known []string) (string, error) {
	var ends []string
	for _, k := range known {
		if k == name {
			return k, nil
		}
		if strings.HasSuffix(k, "/"+name) {
			ends = append(ends, k)
		}
	}
	switch {
	case len(ends) == 1:
		return ends[0], nil
	case len(ends) > 1:
		return "", fmt.Errorf("%q may be %s: write one of them", name, strings.Join(ends, " or "))
	}
	return "", fmt.Errorf("no node has %q: known are cpu, %s", name, strings.Join(known, ", "))
}

// names returns the nodes as kubectl names them.
func (c *capacity) names() (out []string) {
	for _, n := range c.Nodes {
		out = append(out, "node/"+n.Name)
	}
	return out
}

// write writes the table as text. Columns of shapes have letters as headings, which the lines below the table
// explain.
func (c *capacity) write(w io.Writer, wide bool) error {
	if len(c.Nodes) == 0 {
		_, err := fmt.Fprintln(w, "No node has a layout or a NodeResourceTopology.")
		if err != nil || len(c.NotKnown) == 0 {
			return err
		}
		fmt.Fprintln(w)
		return problemTable("NOT KNOWN BECAUSE", c.NotKnown).write(w, false)
	}
	rows := table{heads: []string{"NODE", "POLICY", "CPUS", "MEMORY"}, wide: []string{"POLICY"}}
	for i := range c.Shapes {
		rows.heads = append(rows.heads, "FIT "+string(rune('A'+i)))
	}
	rows.heads = append(rows.heads, "OTHERS")
	for _, n := range c.Nodes {
		rows.rows = append(rows.rows, n.row())
	}
	if len(c.Shapes) > 0 && len(c.Nodes) > 1 {
		total := []string{"all nodes", "", "", ""}
		for _, s := range c.Shapes {
			total = append(total, fmt.Sprint(s.Slots))
		}
		rows.rows = append(rows.rows, append(total, ""))
	}
	if err := rows.write(w, wide); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nTwo amounts, as in 24/38: 24 are free on one NUMA node, the best, and 38 on the node.")
	for i, s := range c.Shapes {
		line := fmt.Sprintf("FIT %c  more pods of %s", 'A'+i, s.text)
		if s.Percent > 0 {
			line += fmt.Sprintf(" (%d %% of the pods that need alignment)", s.Percent)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return fmt.Errorf("write shapes: %w", err)
		}
	}
	if err := c.writeKept(w); err != nil {
		return err
	}
	if len(c.NotKnown) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return problemTable("NOT KNOWN BECAUSE", c.NotKnown).write(w, false)
}

// maxKept bounds the requests that are named in a line about kept room.
const maxKept = 4

// writeKept writes for which pods room is kept, and how many devices of claims, if there are any.
func (c *capacity) writeKept(w io.Writer) error {
	sum, pods, devices := map[string]int{}, 0, map[string]int64{}
	for _, n := range c.Nodes {
		for _, d := range n.ClaimDevices {
			if d.Kept > 0 {
				devices[d.Resource] += d.Kept
			}
		}
		for _, k := range n.Kept {
			sum[k.Request] += k.Pods
			pods += k.Pods
		}
	}
	text := ""
	if pods > 0 {
		var items []string
		for _, name := range slices.Sorted(maps.Keys(sum)) {
			if len(items) == maxKept {
				items = append(items, fmt.Sprintf("and of %d more", len(sum)-maxKept))
				break
			}
			items = append(items, fmt.Sprintf("%s (%d)", name, sum[name]))
		}
		text = fmt.Sprintf("Room is kept for %s not come, of %s %s.\n", choose(pods, "1 pod that has",
			fmt.Sprintf("%d pods that have", pods)), choose(len(sum), "request", "requests"), strings.Join(items, ", "))
	}
	if len(devices) > 0 {
		begin, items := "Devices of claims are kept for pods that have not come, and do", []string(nil)
		if pods > 0 {
			begin = "So are devices of claims, which do"
		}
		for _, driver := range slices.Sorted(maps.Keys(devices)) {
			items = append(items, fmt.Sprintf("%s %d", driver, devices[driver]))
		}
		text += fmt.Sprintf("%s not count as free: %s.\n", begin, strings.Join(items, joint))
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write kept room: %w", err)
	}
	return nil
}

func (n roomOn) row() []string {
	name, cpus, memory := n.Name, "shared", "not pinned"
	if n.Quality == state.Estimated.String() {
		name += " (coarse)"
	}
	if n.CPUs != nil {
		cpus = fmt.Sprintf("%d/%d", n.CPUs.Largest, n.CPUs.Free)
	}
	var others []string
	for _, m := range n.Memory {
		text := roundBytes(m.Largest) + "/" + roundBytes(m.Free)
		if m.Resource == topo.Memory {
			memory = text
		} else {
			others = append(others, m.Resource+" "+text)
		}
	}
	for _, d := range n.Devices {
		others = append(others, fmt.Sprintf("%s %d/%d", d.Resource, d.Largest, d.Free))
	}
	for _, d := range n.ClaimDevices {
		others = append(others, fmt.Sprintf("%s %d/%d", d.Resource, d.Largest, d.Free))
	}
	row := []string{name, n.Policy, cpus, memory}
	for _, s := range n.Slots {
		row = append(row, fmt.Sprint(s))
	}
	return append(row, cmp.Or(strings.Join(others, joint), "-"))
}
