// Package conformance grades schedulers about NUMA nodes. A [Case] describes nodes and what happens to pods on them; a
// [Runner] plays cases on a [Cluster] and has package judge find what the scheduler could have done better.
//
// Cases are files in the folder cases. They state no expected result: the managers of the kubelets decide. Invariant:
// a case uses nothing that only one scheduler understands. The package refuses cases with unknown fields, and does not
// choose a scheduler: the cluster runs one.
package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/lab/machines"
)

// Level is what a scheduler achieves. Each level includes the levels before it.
type Level string

// The levels, in ascending order.
const (
	Safe    Level = "safe"    // no kubelet refuses a pod, and no pod is evicted for nothing
	Live    Level = "live"    // and no pod waits that a node would admit
	Aligned Level = "aligned" // and no pod spans more NUMA nodes than on another node
	Exact   Level = "exact"   // and all that in bursts, on unusual machines, and with old or wrong data
)

// Levels returns the levels in ascending order.
func Levels() []Level { return []Level{Safe, Live, Aligned, Exact} }

// Case is one case, as its file describes it.
type Case struct {
	// Name is the name of the file without its ending: a DNS label of at most 30 bytes.
	Name string `json:"-"`
	// Level is the level that the case tests. A case of level safe counts only refusals and evictions, one of level live
	// also waits; the others count every finding.
	Level Level `json:"level"`
	// Area is empty, or one of [Areas]. Such a case is judged by its level, and counts for no level.
	Area string `json:"area,omitempty"`
	// Why explains in a sentence or two what goes wrong, and for whom.
	Why string `json:"why"`
	// Source is where the facts come from: a KEP, a file of the kubelet with its release, or the URL of a report.
	Source string `json:"source"`
	// Since is the first release of Kubernetes, such as "1.36", that has by default what the case needs; "" for all.
	Since string `json:"since,omitempty"`
	// Machine and Kubelet are for nodes that do not have their own. A node's kubelet settings are added to these.
	Machine string         `json:"machine,omitempty"`
	Kubelet map[string]any `json:"kubelet,omitempty"`
	Nodes   []Node         `json:"nodes"`
	// Gangs are the gangs by name, with the number of pods that have to run. Their groups exist before the first step.
	Gangs map[string]int `json:"gangs,omitempty"`
	Steps []Step         `json:"steps"`
}

// Node is a node of a case.
type Node struct {
	Name string `json:"name"`
	// Machine is the name of a file in the folder machines, or a machine's text of several lines.
	Machine string `json:"machine,omitempty"`
	// Kubelet has fields of a KubeletConfiguration; null removes one.
	Kubelet map[string]any `json:"kubelet,omitempty"`
	// Claimable has the NUMA nodes of the devices of each class, which pods get by claims. -1 stands for a device whose
	// driver publishes no NUMA node.
	Claimable map[string][]int `json:"claimable,omitempty"`
}

// Step is one thing that happens. Exactly one field is set. The next step comes when nothing changes any more.
type Step struct {
	// Create creates pods one after the other: each when nothing changes any more.
	Create []PodSet `json:"create,omitempty"`
	// Burst creates pods at once.
	Burst []PodSet `json:"burst,omitempty"`
	// End deletes pods by name. A name of a set of several pods stands for all of them.
	End []string `json:"end,omitempty"`
	// Restart restarts the kubelet of a node.
	Restart *Restart `json:"restart,omitempty"`
	// Publish changes what is published about a node.
	Publish *Publish `json:"publish,omitempty"`
}

// Restart is a restart of a kubelet. Containers continue to run.
type Restart struct {
	Node string `json:"node"`
	// Kubelet has fields of the KubeletConfiguration that change; null removes one.
	Kubelet map[string]any `json:"kubelet,omitempty"`
}

// PodSet describes equal pods. Several pods are named NAME-1, NAME-2 and so on.
type PodSet struct {
	Name  string `json:"name"`
	Count int    `json:"count,omitempty"` // 1 if absent
	// Node makes the pods foreign: they are created with this nodeName, past the scheduler.
	Node string `json:"node,omitempty"`
	// Gang is the gang that the pods belong to.
	Gang string `json:"gang,omitempty"`
	// Spec is the specification. Containers without a name or an image get one.
	Spec v1.PodSpec `json:"spec"`
}

// Publish is a change of the NodeResourceTopology of a node.
type Publish struct {
	Node string `json:"node"`
	// What is "stop" (no updates any more), "nothing" (no object), "full" (all is available) or "empty" (nothing is).
	What string `json:"what"`
}

// The values of [Publish.What].
const (
	PublishStop    = "stop"
	PublishNothing = "nothing"
	PublishFull    = "full"
	PublishEmpty   = "empty"
)

// Bounds of a case.
const (
	maxNodes = 8
	maxPods  = 40
	maxSteps = 20
)

var (
	release  = regexp.MustCompile(`^1\.[0-9]{1,3}$`)
	caseName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$`)
	nodeName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,6}[a-z0-9])?$`)
)

// Parse parses the text of a case. Errors name the case.
func Parse(name string, text []byte) (*Case, error) {
	c := &Case{Name: name}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("case %s: %w", name, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("case %s: %w", name, err)
	}
	for i := range c.Steps {
		for _, sets := range [][]PodSet{c.Steps[i].Create, c.Steps[i].Burst} {
			for k := range sets {
				sets[k].complete()
			}
		}
	}
	return c, nil
}

// complete adds what is the same in all cases.
func (s *PodSet) complete() {
	s.Count = max(s.Count, 1)
	for prefix, list := range map[string][]v1.Container{"init": s.Spec.InitContainers, "c": s.Spec.Containers} {
		for i := range list {
			if list[i].Name == "" {
				list[i].Name = fmt.Sprintf("%s%d", prefix, i)
			}
			if list[i].Image == "" {
				list[i].Image = "lab.invalid/app:1"
			}
		}
	}
	s.Spec.RestartPolicy = v1.RestartPolicyNever
	s.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	s.Spec.AutomountServiceAccountToken = new(bool)
}

// names returns the names of the pods.
func (s *PodSet) names() (out []string) {
	if s.Count <= 1 {
		return []string{s.Name}
	}
	for i := range s.Count {
		out = append(out, fmt.Sprintf("%s-%d", s.Name, i+1))
	}
	return out
}

func (c *Case) check() error {
	switch {
	case !caseName.MatchString(c.Name):
		return errors.New("name is not a DNS label of at most 30 bytes that begins with a letter")
	case !slices.Contains(Levels(), c.Level):
		return fmt.Errorf("level %q is none of %v", c.Level, Levels())
	case c.Area != "" && !slices.Contains(Areas(), c.Area):
		return fmt.Errorf("area %q is none of %v", c.Area, Areas())
	case (c.Area == AreaGangs) != (len(c.Gangs) > 0):
		return fmt.Errorf("area %q: cases with gangs, and no others, have the area %s", c.Area, AreaGangs)
	case strings.TrimSpace(c.Why) == "" || strings.TrimSpace(c.Source) == "":
		return errors.New("why or source is missing")
	case c.Since != "" && !release.MatchString(c.Since):
		return fmt.Errorf("since %q is no release such as 1.36", c.Since)
	case len(c.Nodes) == 0 || len(c.Nodes) > maxNodes:
		return fmt.Errorf("%d nodes, want 1 to %d", len(c.Nodes), maxNodes)
	case len(c.Steps) == 0 || len(c.Steps) > maxSteps:
		return fmt.Errorf("%d steps, want 1 to %d", len(c.Steps), maxSteps)
	}
	var nodes []string
	for _, n := range c.Nodes {
		if !nodeName.MatchString(n.Name) || slices.Contains(nodes, n.Name) {
			return fmt.Errorf("node %q: want different DNS labels of at most 8 bytes", n.Name)
		}
		nodes = append(nodes, n.Name)
		m, err := c.MachineOf(n)
		if err == nil {
			_, err = n.Devices(m.Topo)
		}
		if err != nil {
			return err
		}
	}
	if err := c.checkSteps(nodes); err != nil {
		return err
	}
	return c.checkGangs()
}

func (c *Case) checkSteps(nodes []string) error {
	pods := map[string]int{}
	total := 0
	now := slices.Clone(c.Nodes)
	for i, s := range c.Steps {
		if err := s.check(nodes, pods); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if s.Restart != nil {
			if _, err := c.MachineOf(s.Restart.change(now)); err != nil {
				return fmt.Errorf("step %d: %w", i+1, err)
			}
		}
		for _, p := range slices.Concat(s.Create, s.Burst) {
			if err := p.checkClaims(c); err != nil {
				return fmt.Errorf("step %d, pod %s: %w", i+1, p.Name, err)
			}
			pods[p.Name] = max(p.Count, 1)
			total += max(p.Count, 1)
		}
	}
	if total == 0 || total > maxPods {
		return fmt.Errorf("%d pods, want 1 to %d", total, maxPods)
	}
	return nil
}

// check checks a step; pods has the sets of earlier steps.
func (s *Step) check(nodes []string, pods map[string]int) error {
	set := 0
	for _, is := range []bool{len(s.Create) > 0, len(s.Burst) > 0, len(s.End) > 0, s.Restart != nil, s.Publish != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("%d fields are set, want one", set)
	}
	var named []string
	if s.Restart != nil {
		named = append(named, s.Restart.Node)
	}
	if s.Publish != nil {
		named = append(named, s.Publish.Node)
		if !slices.Contains([]string{PublishStop, PublishNothing, PublishFull, PublishEmpty}, s.Publish.What) {
			return fmt.Errorf("publish: %q is unknown", s.Publish.What)
		}
	}
	for _, p := range slices.Concat(s.Create, s.Burst) {
		named = append(named, p.Node)
		switch {
		case !nodeName.MatchString(p.Name) || pods[p.Name] > 0:
			return fmt.Errorf("pod %q: want different DNS labels of at most 8 bytes", p.Name)
		case p.Count < 0 || p.Count > maxPods:
			return fmt.Errorf("pod %s: count is outside 0..%d", p.Name, maxPods)
		case len(p.Spec.Containers) == 0:
			return fmt.Errorf("pod %s has no containers", p.Name)
		case p.Node != "" && len(s.Burst) > 0:
			return fmt.Errorf("pod %s: a foreign pod in a burst would race with the scheduler", p.Name)
		}
	}
	for _, n := range named {
		if n != "" && !slices.Contains(nodes, n) {
			return fmt.Errorf("there is no node %q", n)
		}
	}
	for _, name := range s.End {
		if !ends(name, pods) {
			return fmt.Errorf("there is no pod %q", name)
		}
	}
	return nil
}

// change changes the node in a list of nodes to the one after the restart, and returns it.
func (r *Restart) change(nodes []Node) Node {
	n := &nodes[slices.IndexFunc(nodes, func(n Node) bool { return n.Name == r.Node })]
	settings := map[string]any{}
	maps.Copy(settings, n.Kubelet)
	maps.Copy(settings, r.Kubelet)
	n.Kubelet = settings
	return *n
}

// ends reports whether a name stands for pods that exist.
func ends(name string, pods map[string]int) bool {
	if pods[name] > 0 {
		return true
	}
	for set, n := range pods {
		if slices.Contains((&PodSet{Name: set, Count: n}).names(), name) {
			return true
		}
	}
	return false
}

// MachineOf returns the machine of a node with the configuration of its kubelet.
func (c *Case) MachineOf(n Node) (machines.Machine, error) {
	text := n.Machine
	if text == "" {
		text = c.Machine
	}
	if !strings.Contains(strings.TrimSpace(text), "\n") && !strings.HasPrefix(text, "numa ") {
		file, err := described.ReadFile("machines/" + text + ".txt")
		if err != nil {
			return machines.Machine{}, fmt.Errorf("node %s: no machine %q", n.Name, text)
		}
		text = string(file)
	}
	settings := map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"evictionHard": map[string]any{"memory.available": "100Mi"}}
	maps.Copy(settings, c.Kubelet)
	maps.Copy(settings, n.Kubelet)
	maps.DeleteFunc(settings, func(_ string, v any) bool { return v == nil })
	config, err := json.Marshal(settings)
	if err != nil {
		return machines.Machine{}, fmt.Errorf("node %s: kubelet: %w", n.Name, err)
	}
	return machines.Parse(c.Name+"-"+n.Name, text, string(config))
}

// PriorityClasses returns the priority classes that pods of cases may name, with their values.
func PriorityClasses() map[string]int32 { return map[string]int32{"low": 100, "high": 1000} }
