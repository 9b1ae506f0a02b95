package nri

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// maxState bounds the file in bytes. It leaves room for 2,048 pods with some holdings each.
const maxState = 16 << 20

// file stores the pods of a node.
type file struct{ path string }

// saved is the JSON form of the file.
type saved struct {
	Version int        `json:"version"`
	Pods    []savedPod `json:"pods"`
}

type savedPod struct {
	// Decision has the pod's UID and the holdings of its containers.
	v1alpha1.Decision
	// Spec is the pod's request.
	Spec *place.Pod `json:"spec"`
	// Offered and Decided have the meaning of the fields of pin.Pod.
	Offered bool `json:"offered,omitempty"`
	Decided bool `json:"decided,omitempty"`
	// Fault is the fault of the placement, or nil. Arrived has what is needed to try the placement again; it is nil if
	// it is not to be tried again.
	Fault   *pin.Fault `json:"fault,omitempty"`
	Arrived *arrived   `json:"arrived,omitempty"`
}

// arrived has the parts of a pin.Arrival that savedPod itself does not have.
type arrived struct {
	Decision *v1alpha1.Decision `json:"decision,omitempty"`
	Devices  []pin.Given        `json:"devices,omitempty"`
}

// pod returns the stored pod. ok is false if the machine lacks something that the pod holds, or that was decided for
// it. The pod then has to arrive again.
func (p *savedPod) pod(m *topo.Machine) (out pin.Pod, ok bool) {
	hs, err := p.Holdings(m)
	if err != nil {
		return out, false
	}
	out = pin.Pod{UID: p.UID, Spec: p.Spec, Holdings: hs, Offered: p.Offered, Decided: p.Decided, Fault: p.Fault}
	if p.Arrived == nil {
		return out, true
	}
	out.Arrival = pin.Arrival{UID: p.UID, Spec: p.Spec, Devices: p.Arrived.Devices}
	if p.Arrived.Decision != nil {
		out.Arrival.Decision, err = p.Arrived.Decision.Holdings(m)
	}
	return out, err == nil
}

// savedOf returns the stored form of a pod.
func savedOf(m *topo.Machine, p pin.Pod) savedPod {
	out := savedPod{Decision: v1alpha1.DecisionOf(m, p.UID, "", p.Holdings), Spec: p.Spec, Offered: p.Offered,
		Decided: p.Decided, Fault: p.Fault}
	if p.Fault == nil || p.Arrival.Spec == nil {
		return out
	}
	out.Arrived = &arrived{Devices: p.Arrival.Devices}
	if p.Arrival.Decision != nil {
		d := v1alpha1.DecisionOf(m, p.UID, "", p.Arrival.Decision)
		out.Arrived.Decision = &d
	}
	return out
}

const stateVersion = 1

// read returns the pods in the file, in their order. It leaves out pods that have to arrive again on the machine m;
// see savedPod.pod. If the file does not exist, there are no pods and no error.
func (f file) read(m *topo.Machine) (out []pin.Pod, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("state file %s: %w; remove it once no pod with exclusive CPUs runs on the node", f.path, err)
		}
	}()
	r, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // read-only
	data, err := io.ReadAll(io.LimitReader(r, maxState+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxState:
		return nil, fmt.Errorf("more than %d bytes", maxState)
	}
	var in saved
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	if in.Version != stateVersion {
		return nil, fmt.Errorf("version %d, want %d", in.Version, stateVersion)
	}
	for _, p := range in.Pods {
		if p.Spec == nil {
			return nil, fmt.Errorf("pod %s: spec is missing", p.UID)
		}
		if err := p.Spec.Validate(); err != nil {
			return nil, fmt.Errorf("pod %s: %w", p.UID, err)
		}
		if one, ok := p.pod(m); ok {
			out = append(out, one)
		}
	}
	return out, nil
}

// write replaces the file as a whole: a reader finds the old content or the complete new content.
func (f file) write(n *pin.Node) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write state file %s: %w", f.path, err)
		}
	}()
	out := saved{Version: stateVersion, Pods: []savedPod{}}
	for _, p := range n.Pods() {
		out.Pods = append(out.Pods, savedOf(n.Machine(), p))
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	t, err := os.CreateTemp(filepath.Dir(f.path), ".pins-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(t.Name()) // the temporary file is not used
		}
	}()
	if _, err = t.Write(data); err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	return os.Rename(t.Name(), f.path)
}

// save writes the file if the node has changed since the last write.
func (p *Plugin) save() error {
	if p.node == p.written {
		return nil
	}
	if err := p.file.write(p.node); err != nil {
		return err
	}
	p.written = p.node
	return nil
}
