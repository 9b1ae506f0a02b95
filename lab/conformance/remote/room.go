package remote

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// room is what nodes have left for pods. Several nodes have the room that each of them has.
type room struct {
	numas       int // NUMA nodes with CPUs
	least, most int // CPUs for exclusive use on the NUMA nodes with the fewest and with the most
	sum         int // whole CPUs that pods may still request in all
}

// maxNUMAs and maxCPUs bound what is declared or published about a node.
const (
	maxNUMAs = 64
	maxCPUs  = 1 << 14
)

var declared = regexp.MustCompile(`^([0-9]{1,2})x([0-9]{1,5})$`)

// declare returns the NUMA nodes that a text such as "2x32" declares: two of 32 CPUs each.
func declare(text string) (numas, cpus int, err error) {
	m := declared.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, fmt.Errorf("%q is not NUMA NODES x CPUS of each, such as 2x32", text)
	}
	numas, _ = strconv.Atoi(m[1])
	cpus, _ = strconv.Atoi(m[2])
	if numas < 2 || numas > maxNUMAs || cpus < 1 || cpus > maxCPUs {
		return 0, 0, fmt.Errorf("%q: want 2 to %d NUMA nodes, and 1 to %d CPUs of each", text, maxNUMAs, maxCPUs)
	}
	return numas, cpus, nil
}

// declaredRoom returns the room of a node whose NUMA nodes were declared. The reserved CPUs may all be on one of them.
func declaredRoom(n *v1.Node, requested resource.Quantity, numas, cpus int) (room, error) {
	allocatable := n.Status.Allocatable.Cpu()
	reserved := numas*cpus - int(allocatable.MilliValue()/1000) // the kubelet reserves whole CPUs
	if allocatable.Value() > int64(numas*cpus) || reserved >= cpus {
		return room{}, fmt.Errorf("node %s has %s allocatable CPUs, which %d NUMA nodes of %d CPUs do not explain", n.Name,
			allocatable, numas, cpus)
	}
	return room{numas: numas, least: cpus - reserved, most: cpus, sum: left(n, requested)}, nil
}

// left returns the whole CPUs of a node that no pod requests.
func left(n *v1.Node, requested resource.Quantity) int {
	sum := n.Status.Allocatable.Cpu().DeepCopy()
	sum.Sub(requested)
	return int(min(max(sum.MilliValue(), 0)/1000, maxNUMAs*maxCPUs))
}

// publishedRoom returns the room of a node with a NodeResourceTopology: what is available on each NUMA node.
func publishedRoom(n *v1.Node, requested resource.Quantity, o *v1alpha2.NodeResourceTopology) (room, error) {
	out := room{least: math.MaxInt, sum: left(n, requested)}
	for _, z := range o.Zones {
		i := slices.IndexFunc(z.Resources, func(r v1alpha2.ResourceInfo) bool { return r.Name == string(v1.ResourceCPU) })
		if z.Type != helper.ZoneTypeNUMANode || i < 0 || z.Resources[i].Capacity.IsZero() {
			continue
		}
		cpus := int(min(max(z.Resources[i].Available.MilliValue(), 0)/1000, maxCPUs))
		out.numas++
		out.least, out.most = min(out.least, cpus), max(out.most, cpus)
	}
	if out.numas < 2 || out.numas > maxNUMAs {
		return room{}, fmt.Errorf("NodeResourceTopology %s has %d NUMA nodes with CPUs, want 2 to %d", o.Name, out.numas,
			maxNUMAs)
	}
	return out, nil
}

// common returns the room that both nodes have.
func (r room) common(other room) (room, error) {
	if r.numas != other.numas {
		return room{}, fmt.Errorf("nodes have %d and %d NUMA nodes: choose equal ones", r.numas, other.numas)
	}
	return room{r.numas, min(r.least, other.least), max(r.most, other.most), min(r.sum, other.sum)}, nil
}

// Names of amounts of CPUs in cases. They are even, because kubelets with full-pcpus-only refuse others.
const (
	amountWhole = "whole" // fits into every NUMA node that is free, and one for each NUMA node fits into the node
	amountHalf  = "half"  // two of them do not fit into one NUMA node
	amountLate  = "late"  // does not fit beside a half, and fits into the node beside a half on each NUMA node
	amountWide  = "wide"  // fits into no NUMA node, and into the node
)

// amounts returns the amounts of CPUs by name. It fails if the room is too small or too unequal for them.
func (r room) amounts() (map[string]int, error) {
	half := even(r.most/2 + 1)
	late := even(r.most - half + 1)
	whole := min(r.least, r.sum/r.numas) &^ 1
	wide := even(r.most + 1)
	if half > whole || late >= whole || r.numas*half+late > r.sum || wide > r.sum {
		return nil, errors.New("its NUMA nodes are too small or too unequal, or pods request too much of it: " + r.String())
	}
	return map[string]int{amountWhole: whole, amountHalf: half, amountLate: late, amountWide: wide}, nil
}

func (r room) String() string {
	return fmt.Sprintf("%d NUMA nodes of %d to %d CPUs, and %d in all", r.numas, r.least, r.most, r.sum)
}

func even(n int) int { return (n + 1) &^ 1 }

// cpus returns the CPUs that a text such as "whole", "whole-late" or "late-500m" stands for.
func cpus(text string, amounts map[string]int) (resource.Quantity, error) {
	first, rest, _ := strings.Cut(text, "-")
	n, ok := amounts[first]
	if !ok {
		return resource.Quantity{}, fmt.Errorf("cpus %q: want an amount first: whole, half, late or wide", text)
	}
	out := *resource.NewQuantity(int64(n), resource.DecimalSI)
	if rest == "" {
		return out, nil
	}
	less, err := resource.ParseQuantity(rest)
	if n, ok := amounts[rest]; ok {
		less, err = *resource.NewQuantity(int64(n), resource.DecimalSI), nil
	}
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("cpus %q: %w", text, err)
	}
	if out.Sub(less); out.Sign() <= 0 {
		return resource.Quantity{}, fmt.Errorf("cpus %q are %s", text, out.String())
	}
	return out, nil
}
