package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// JournalFile is where a kubelet of durable containers records the decisions of its managers: one [Admission] as JSON
// per line, in the kubelet's directory. Lines may be empty, or cut off if a kubelet was killed. A reader may truncate
// the file.
const JournalFile = "admissions.jsonl"

// Admission is one pod that the managers of a kubelet admitted or refused, with all state on which the decision is
// based.
type Admission struct {
	// At is when the managers were asked.
	At time.Time `json:"at"`
	// Began is when the kubelet's process started; it is equal for all admissions of one process.
	Began time.Time `json:"began"`
	// Policy and Scope are the settings of the topology manager.
	Policy string `json:"policy"`
	Scope  string `json:"scope"`

	UID      string `json:"uid"`
	Name     string `json:"name"`
	Admitted bool   `json:"admitted"`
	Reason   string `json:"reason,omitempty"`

	// Ready is false until the kubelet has handled its first pods. Until then the managers do not release the resources
	// of pods that are gone (cpumanager/cpu_manager.go, removeStaleState).
	Ready bool `json:"ready"`
	// Active are the UIDs of the pods that may hold something; the pod itself is one of them.
	Active []string `json:"active"`
	// Devices is how many healthy devices each resource has. Plugins register some time after a kubelet starts.
	Devices map[string]int `json:"devices"`
	// States are the managers' state files before the decision, by name in the kubelet's directory.
	States map[string]json.RawMessage `json:"states"`
}

// StateFiles returns the names of the files in which the CPU, memory and device managers keep holdings, in a kubelet's
// directory.
func StateFiles() []string {
	return []string{"cpu_manager_state", "memory_manager_state",
		filepath.Join("device-plugins", "kubelet_internal_checkpoint")}
}

// journal is an admit handler that asks the managers and records their decisions.
type journal struct {
	*Managers
	dir           string
	policy, scope string
	began         time.Time

	mu     sync.Mutex   // guards around; held during each admission, so the records have the order of the decisions
	around surroundings // set when the managers start, which is before the first admission
}

// setSurroundings stores what the journal asks the kubelet for. It is called before the managers start.
func (j *journal) setSurroundings(s surroundings) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.around = s
}

// admit asks the managers to decide on a pod, and records the decision. If the record fails, it logs the error, and
// the decision holds.
func (j *journal) admit(ctx context.Context, attrs *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	j.mu.Lock()
	defer j.mu.Unlock()
	a, err := j.newRecord(attrs.Pod)
	result := j.decide(ctx, attrs)
	if err == nil {
		a.Admitted, a.Reason = result.Admit, result.Reason
		err = j.write(a)
	}
	if err != nil {
		klog.Background().Error(err, "Admission not recorded", "pod", klog.KObj(attrs.Pod))
	}
	return result
}

// newRecord returns the record of an admission without the decision: the state on which the managers will base it.
func (j *journal) newRecord(pod *v1.Pod) (Admission, error) {
	a := Admission{At: time.Now(), Began: j.began, Policy: j.policy, Scope: j.scope, UID: string(pod.UID), Name: pod.Name,
		Devices: map[string]int{}, States: map[string]json.RawMessage{}}
	if j.around.pods == nil {
		return a, errors.New("record admission: the managers have not started")
	}
	a.Ready = j.around.sources.AllReady()
	for _, p := range j.around.pods() {
		a.Active = append(a.Active, string(p.UID))
	}
	for resource, instances := range j.allocatableDevices() {
		a.Devices[resource] = len(instances)
	}
	for _, name := range StateFiles() {
		text, err := os.ReadFile(filepath.Join(j.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return a, fmt.Errorf("record admission: %w", err)
		}
		a.States[name] = text
	}
	return a, nil
}

// write appends a record to the journal file.
func (j *journal) write(a Admission) error {
	line, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("record admission: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(j.dir, JournalFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("record admission: %w", err)
	}
	defer f.Close()
	// The first newline ends a line that a killed kubelet has left incomplete.
	if _, err := fmt.Fprintf(f, "\n%s\n", line); err != nil {
		return fmt.Errorf("record admission: %w", err)
	}
	return nil
}
