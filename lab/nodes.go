package lab

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/lab/machines"
)

// Bounds of a cluster.
const (
	maxNodes    = 200
	maxNodeName = 40 // part of a socket's path
)

// Node is one node of a cluster.
type Node struct {
	Name    string // at most 40 bytes, a DNS label
	Machine string // name in [Config.Machines] or in the built-in catalogue
	// Release is the release of Kubernetes of the node's kubelet, such as "1.35"; empty means the release of this
	// program. Another release needs its program in [Config.Programs].
	Release string
	// Pinned means that the node's agent decides in place of the kubelet's managers, which are off. It follows the
	// machine's configuration, and pins containers through the container runtime.
	Pinned bool
	// Apart gives the node a process of its own, as [Config.Apart] does for all nodes.
	Apart bool
}

var nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func (n Node) check() error {
	if len(n.Name) > maxNodeName || !nodeName.MatchString(n.Name) {
		return fmt.Errorf("node name %q is not a DNS label of at most %d bytes", n.Name, maxNodeName)
	}
	return nil
}

// Releases returns the releases of Kubernetes that nodes name, once each, in the order of the nodes.
func Releases(nodes []Node) (out []string) {
	for _, n := range nodes {
		if n.Release != "" && !slices.Contains(out, n.Release) {
			out = append(out, n.Release)
		}
	}
	return out
}

func names(nodes []Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return out
}

// DefaultNodes returns one node for each machine of the built-in catalogue, named like it.
func DefaultNodes() []Node {
	var out []Node
	for _, name := range machines.List() {
		out = append(out, Node{Name: name, Machine: name})
	}
	return out
}

// countPattern matches a machine with a count, such as 2xgpu-8.
var countPattern = regexp.MustCompile(`^([0-9]+)x(.+)$`)

// ParseNodes parses a comma list of machines, each with an optional count and an optional release of its kubelet,
// such as "2xxeon-2s,gpu-8@1.35". If a machine gets one node, the node has the machine's name; if it gets several,
// they are numbered from 1. ParseNodes does not check that machines and releases exist; [Start] does.
func ParseNodes(text string) ([]Node, error) {
	var list []Node
	total := map[string]int{}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		part, release, _ := strings.Cut(part, "@")
		count, machine := 1, part
		if m := countPattern.FindStringSubmatch(part); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil || n < 1 || n > maxNodes {
				return nil, fmt.Errorf("nodes %q: count is outside 1..%d", part, maxNodes)
			}
			count, machine = n, m[2]
		}
		if !nodeName.MatchString(machine) {
			return nil, fmt.Errorf("nodes %q: want MACHINE or COUNTxMACHINE, and @RELEASE", part)
		}
		total[machine] += count
		for range count {
			list = append(list, Node{Machine: machine, Release: release})
		}
		if len(list) > maxNodes {
			return nil, fmt.Errorf("more than %d nodes", maxNodes)
		}
	}
	seen := map[string]int{}
	out := make([]Node, 0, len(list))
	for _, n := range list {
		n.Name = n.Machine
		if total[n.Machine] > 1 {
			seen[n.Machine]++
			n.Name = fmt.Sprintf("%s-%d", n.Machine, seen[n.Machine])
		}
		out = append(out, n)
	}
	return out, nil
}
