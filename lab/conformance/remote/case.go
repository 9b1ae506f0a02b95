package remote

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/lab/conformance"
)

//go:embed cases/*.yaml
var files embed.FS

// Case is a case whose amounts are relative to the nodes of a cluster.
type Case struct {
	Name   string            `json:"-"`
	Level  conformance.Level `json:"level"` // safe or live
	Why    string            `json:"why"`
	Source string            `json:"source"`
	Nodes  int               `json:"nodes"` // 1 or 2
	Steps  []step            `json:"steps"`
}

// step is a step of a case, as in package conformance.
type step struct {
	Create []podSet `json:"create,omitempty"`
	Burst  []podSet `json:"burst,omitempty"`
	End    []string `json:"end,omitempty"`
}

// podSet describes equal Guaranteed pods.
type podSet struct {
	Name string `json:"name"`
	// Count is the number of pods. With NUMAs set there are so many more than NUMA nodes of a node.
	Count int  `json:"count,omitempty"`
	NUMAs bool `json:"numas,omitempty"`
	// Node is "a" or "b" for pods that are bound past the scheduler.
	Node string `json:"node,omitempty"`
	// CPUs are the CPUs of each container; see cpus.
	CPUs []string `json:"cpus"`
}

// nodeNames are the names of nodes in cases.
var nodeNames = []string{"a", "b"}

// Cases returns the cases for running clusters, in ascending order of name.
func Cases() (out []*Case, err error) {
	names, err := fs.Glob(files, "cases/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list cases: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read case %s: %w", name, err)
		}
		c := &Case{Name: strings.TrimSuffix(path.Base(name), ".yaml")}
		if err := yaml.UnmarshalStrict(text, c); err != nil {
			return nil, fmt.Errorf("case %s: %w", c.Name, err)
		}
		if c.Nodes < 1 || c.Nodes > len(nodeNames) || c.Why == "" || c.Source == "" ||
			c.Level != conformance.Safe && c.Level != conformance.Live {
			return nil, fmt.Errorf("case %s: nodes, why, source or level is missing or wrong", c.Name)
		}
		out = append(out, c)
	}
	return out, nil
}

// on returns the case with the amounts of a room, on nodes of a cluster.
func (c *Case) on(r room, amounts map[string]int, nodes []string, image string) (*conformance.Case, error) {
	out := &conformance.Case{Name: c.Name, Level: c.Level, Why: c.Why, Source: c.Source}
	for _, n := range nodes[:c.Nodes] {
		out.Nodes = append(out.Nodes, conformance.Node{Name: n})
	}
	for i, s := range c.Steps {
		made := conformance.Step{End: s.End}
		var err error
		if made.Create, err = podSets(s.Create, r, amounts, nodes, image); err == nil {
			made.Burst, err = podSets(s.Burst, r, amounts, nodes, image)
		}
		if err != nil {
			return nil, fmt.Errorf("case %s, step %d: %w", c.Name, i+1, err)
		}
		out.Steps = append(out.Steps, made)
	}
	return out, nil
}

func podSets(sets []podSet, r room, amounts map[string]int, nodes []string, image string) (out []conformance.PodSet,
	err error) {
	for _, s := range sets {
		made := conformance.PodSet{Name: s.Name, Count: s.Count, Spec: spec()}
		if s.NUMAs {
			made.Count += r.numas
		}
		made.Count = max(made.Count, 1)
		if s.Node != "" {
			i := slices.Index(nodeNames, s.Node)
			if i < 0 || i >= len(nodes) {
				return nil, fmt.Errorf("pod %s: there is no node %q", s.Name, s.Node)
			}
			made.Node = nodes[i]
		}
		if s.Name == "" || len(s.CPUs) == 0 {
			return nil, errors.New("a pod has no name or no containers")
		}
		for i, text := range s.CPUs {
			q, err := cpus(text, amounts)
			if err != nil {
				return nil, fmt.Errorf("pod %s: %w", s.Name, err)
			}
			made.Spec.Containers = append(made.Spec.Containers, container(fmt.Sprint("c", i), image, v1.ResourceList{
				v1.ResourceCPU: q, v1.ResourceMemory: resource.MustParse("64Mi")}))
		}
		out = append(out, made)
	}
	return out, nil
}

// spec returns the specification of a pod without containers, which the Pod Security Standard "restricted" allows.
func spec() v1.PodSpec {
	return v1.PodSpec{
		RestartPolicy:                 v1.RestartPolicyNever,
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		SecurityContext: &v1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65534),
			SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}},
	}
}

func container(name, image string, amounts v1.ResourceList) v1.Container {
	return v1.Container{Name: name, Image: image, Resources: v1.ResourceRequirements{Limits: amounts},
		SecurityContext: &v1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false),
			Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}}}
}
