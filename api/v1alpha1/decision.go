package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// DecisionAnnotation is the annotation of a pod with the scheduler's decision, on a node whose agent pins containers.
// The scheduler writes it with the pod's binding. An admission policy forbids it to all others. A decision for another
// pod, an earlier pod of the same name or another node is never used.
const DecisionAnnotation = "tenon.sh/placement"

// maxDecision bounds the bytes of a decision. It is half of what the API server accepts as annotations of one object.
const maxDecision = 128 << 10

// Decision is what the scheduler has decided that the containers of one pod get on one node.
type Decision struct {
	// UID and Node are the pod's.
	UID  string `json:"uid"`
	Node string `json:"node"`
	// Containers are those with holdings, in the order of the pod's containers, init containers first.
	Containers []ContainerHolding `json:"containers"`
}

// DecisionOf returns the decision that gives a pod's containers these holdings on a node.
func DecisionOf(m *topo.Machine, uid, node string, hs []place.Holding) Decision {
	d := Decision{UID: uid, Node: node, Containers: []ContainerHolding{}}
	for _, h := range hs {
		d.Containers = append(d.Containers, fromHolding(m, h))
	}
	return d
}

// Holdings returns what a decision gives to the containers. It returns an error if it names CPUs, NUMA nodes or devices
// that the machine lacks.
func (d *Decision) Holdings(m *topo.Machine) ([]place.Holding, error) {
	if err := within("containers", len(d.Containers), 0, place.MaxContainers); err != nil {
		return nil, err
	}
	out := make([]place.Holding, 0, len(d.Containers))
	for _, c := range d.Containers {
		h, err := c.core(m)
		if err != nil {
			return nil, fmt.Errorf("container %q: %w", clip(visible(c.Name)), err)
		}
		out = append(out, h)
	}
	return out, nil
}

// DecisionText returns the value of the annotation for a decision. Equal arguments give equal texts. A text of more
// than maxDecision bytes is an error.
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

// ParseDecision parses the value of the annotation of a pod on a node. A decision for another pod or node is an error,
// and so is one that names what the machine lacks. ParseDecision does not check what is free, nor what the pod
// requests.
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
		return nil, fmt.Errorf("it is for the pod with UID %s, this one has UID %s", clip(visible(d.UID)), uid)
	case d.Node != node:
		return nil, fmt.Errorf("it is for node %s, the pod is on node %s", clip(visible(d.Node)), node)
	}
	return d.Holdings(m)
}
