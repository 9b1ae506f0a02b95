// Command embed prints where a pod fits, and why not elsewhere, without a cluster and without Tenon's scheduler.
//
// It is an example of a program that embeds Tenon's core. Its Kubernetes libraries are of release 1.34, and it imports
// no client-go. It refuses to read anything but its two files: nodes with their kubelet's settings, and a pod.
//
//	go run . nodes.yaml pod.yaml
package main

import (
	"fmt"
	"io"
	"maps"
	"os"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want two arguments: NODES.yaml POD.yaml")
	}
	nodes, err := readNodes(args[0])
	if err != nil {
		return err
	}
	pod, demand, err := readPod(args[1])
	if err != nil {
		return err
	}
	fmt.Fprintln(out, pod)
	for _, n := range nodes {
		verdict := place.Judge(n.usage, pod, place.Place(n.usage, pod), demand)
		fmt.Fprintf(out, "%s: %s\n", n.name, verdict.Text(n.usage.Machine))
	}
	return nil
}

// readPod reads a manifest and returns the pod as the core has it, and what its annotations demand.
func readPod(file string) (*place.Pod, place.Demand, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, place.Demand{}, err
	}
	var manifest v1.Pod
	if err := yaml.UnmarshalStrict(data, &manifest); err != nil {
		return nil, place.Demand{}, fmt.Errorf("%s: %w", file, err)
	}
	setDefaults(&manifest)
	pod, err := podapi.ToPlace(&manifest)
	if err != nil {
		return nil, place.Demand{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := pod.Validate(); err != nil {
		return nil, place.Demand{}, fmt.Errorf("%s: %w", file, err)
	}
	demand, err := podapi.Demand(&manifest)
	if err != nil {
		return nil, place.Demand{}, fmt.Errorf("%s: %w", file, err)
	}
	return pod, demand, nil
}

// setDefaults sets each request that a manifest leaves out to the limit of the same resource. The API server does
// this too, so pods that are read from it need no defaults.
func setDefaults(p *v1.Pod) {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			requests := v1.ResourceList{}
			maps.Copy(requests, r.Limits)
			maps.Copy(requests, r.Requests)
			r.Requests = requests
		}
	}
}
