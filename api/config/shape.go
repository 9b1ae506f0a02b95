package config

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Bounds on the number of shapes, and on one amount of a shape (CPUs, bytes or devices).
const (
	maxShapes = 8
	maxAmount = 1 << 50
)

// ParseShape parses RESOURCE=AMOUNT[,RESOURCE=AMOUNT...], such as "cpu=4,memory=8Gi,example.com/gpu=1", as a Guaranteed
// pod of one container. Devices have their full names.
func ParseShape(text string) (*place.Pod, error) {
	c := place.Container{Name: "main"}
	seen := map[string]bool{}
	for item := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(item, "=")
		q, err := resource.ParseQuantity(value)
		if !ok || err != nil || q.Sign() <= 0 || q.CmpInt64(maxAmount) > 0 {
			return nil, fmt.Errorf("%q: want RESOURCE=AMOUNT, for example cpu=4 or memory=8Gi", item)
		}
		if seen[name] {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		seen[name] = true
		switch {
		case name == "cpu":
			c.MilliCPU = q.MilliValue()
		case name == topo.Memory || strings.HasPrefix(name, "hugepages-"):
			c.Memory = append(c.Memory, place.Amount{Kind: name, Bytes: q.Value()})
		case strings.Contains(name, "/"):
			c.Devices = append(c.Devices, place.Count{Resource: name, N: q.Value()})
		default:
			return nil, fmt.Errorf("%q is no resource: want cpu, memory, hugepages-SIZE or a device's whole name", name)
		}
	}
	slices.SortFunc(c.Memory, func(a, b place.Amount) int { return strings.Compare(a.Kind, b.Kind) })
	slices.SortFunc(c.Devices, func(a, b place.Count) int { return strings.Compare(a.Resource, b.Resource) })
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{c}}, nil
}

// checkShapes returns an error if there are too many shapes, or one cannot be read.
func checkShapes(all []string) error {
	if len(all) > maxShapes {
		return fmt.Errorf("%s: fittingShapes: %d shapes, at most %d", tenonKind, len(all), maxShapes)
	}
	for _, text := range all {
		if _, err := ParseShape(text); err != nil {
			return fmt.Errorf("%s: fittingShapes: %w", tenonKind, err)
		}
	}
	return nil
}
