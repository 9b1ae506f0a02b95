package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// DecisionAnnotation is the annotation of a pod that says what the scheduler has decided for it, on a node where the
// agent is the arbiter. The scheduler writes it with the pod's binding. An admission policy keeps everybody else from
// writing it; a decision for another pod, an earlier pod of the same name or another node is not used in any case.
const DecisionAnnotation = "tenon.sh/placement"

// maxDecision bounds the bytes of a decision: the API server takes 256 KiB of annotations of one object.
const maxDecision = 128 << 10

// Decision is what the containers of one pod get on one node, as the scheduler has decided.
type Decision struct {
	// UID and Node are those of the pod.
	UID  string `json:"uid"`
	Node string `json:"node"`
	// Containers are those that hold something, in the order of the pod's containers, init containers first.
	Containers []ContainerHolding `json:"containers"`
}

// DecisionOf returns what containers of a pod get on a node as a decision.
func DecisionOf(m *topo.Machine, uid, node string, hs []place.Holding) Decision {
	d := Decision{UID: uid, Node: node, Containers: []ContainerHolding{}}
	for _, h := range hs {
		d.Containers = append(d.Containers, fromHolding(m, h))
	}
	return d
}

// Holdings returns what the containers of a decision get of a machine. It is an error where they name what the machine
// lacks.
func (d *Decision) Holdings(m *topo.Machine) ([]place.Holding, error) {
	if err := within("containers", len(d.Containers), 0, place.MaxContainers); err != nil {
		return nil, err
	}
	out := make([]place.Holding, 0, len(d.Containers))
	for _, c := range d.Containers {
		h, err := c.core(m)
		if err != nil {
			return nil, fmt.Errorf("container %q: %w", clip(printable(c.Name)), err)
		}
		out = append(out, h)
	}
	return out, nil
}

// DecisionText returns the value of the annotation. Equal arguments give equal texts.
func DecisionText(m *topo.Machine, uid, node string, hs []place.Holding) (string, error) {
	text, err := json.Marshal(DecisionOf(m, uid, node, hs))
	if err == nil && len(text) > maxDecision {
		err = fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), maxDecision)
	}
	if err != nil {
		return "", fmt.Errorf("decision for pod %s on node %s: %w", clip(uid), clip(node), err)
	}
	return string(text), nil
}

// ParseDecision reads the value of the annotation of a pod on a node. A decision for another pod or node is an error,
// as is one that names what the machine lacks. Whether what it names is free, and what the pod asks for, is not looked
// at.
func ParseDecision(text string, m *topo.Machine, uid, node string) ([]place.Holding, error) {
	out, err := parseDecision(text, m, uid, node)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", DecisionAnnotation, err)
	}
	return out, nil
}

func parseDecision(text string, m *topo.Machine, uid, node string) ([]place.Holding, error) {
	if len(text) > maxDecision {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), maxDecision)
	}
	var d Decision
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("it is not a decision: %w", err)
	}
	switch {
	case d.UID != uid:
		return nil, fmt.Errorf("it is for the pod with UID %s, this one has UID %s", clip(printable(d.UID)), uid)
	case d.Node != node:
		return nil, fmt.Errorf("it is for node %s, the pod is on node %s", clip(printable(d.Node)), node)
	}
	return d.Holdings(m)
}
