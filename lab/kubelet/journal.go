package kubelet

import (
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

// JournalFile is where a kubelet of durable containers records what its managers decide: one [Admission] as JSON per
// line, in the kubelet's directory. Lines may be empty, or cut off where a kubelet was killed. Whoever reads the file
// may truncate it.
const JournalFile = "admissions.jsonl"

// Admission is one pod that the managers of a kubelet admitted or refused, with everything they decided by.
type Admission struct {
	At time.Time `json:"at"`
	// Began is when the kubelet's process started: admissions of one process have the same.
	Began time.Time `json:"began"`
	// Policy and Scope are those of the topology manager.
	Policy string `json:"policy"`
	Scope  string `json:"scope"`

	UID      string `json:"uid"`
	Name     string `json:"name"`
	Admitted bool   `json:"admitted"`
	Reason   string `json:"reason,omitempty"`

	// Ready is false until the kubelet has handled its first pods. Until then the managers release nothing of pods
	// that are gone (cpumanager/cpu_manager.go, removeStaleState).
	Ready bool `json:"ready"`
	// Active are the UIDs of the pods that may hold something; the pod itself is one of them.
	Active []string `json:"active"`
	// Devices is how many healthy devices each resource has. Plugins register some time after a kubelet starts.
	Devices map[string]int `json:"devices"`
	// States are the managers' state files before the decision, by name in the kubelet's directory.
	States map[string]json.RawMessage `json:"states"`
}

// StateFiles are the files in which the CPU, memory and device managers keep who holds what, in a kubelet's directory.
func StateFiles() []string {
	return []string{"cpu_manager_state", "memory_manager_state",
		filepath.Join("device-plugins", "kubelet_internal_checkpoint")}
}

// journal is the managers' admit handler, with a record of what they decide.
type journal struct {
	*Managers
	dir           string
	policy, scope string
	began         time.Time

	mu     sync.Mutex
	around surroundings // set when the managers start, which is before the first admission
}

func (j *journal) starts(s surroundings) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.around = s
}

// Admit implements lifecycle.PodAdmitHandler.
func (j *journal) Admit(attrs *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	j.mu.Lock()
	defer j.mu.Unlock()
	a, err := j.before(attrs.Pod)
	result := j.Topology.Admit(attrs)
	if err == nil {
		a.Admitted, a.Reason = result.Admit, result.Reason
		err = j.write(a)
	}
	if err != nil {
		klog.Background().Error(err, "Admission not recorded", "pod", klog.KObj(attrs.Pod))
	}
	return result
}

// before is what the managers decide by.
func (j *journal) before(pod *v1.Pod) (Admission, error) {
	a := Admission{At: time.Now(), Began: j.began, Policy: j.policy, Scope: j.scope, UID: string(pod.UID), Name: pod.Name,
		Devices: map[string]int{}, States: map[string]json.RawMessage{}}
	if j.around.pods == nil {
		return a, errors.New("record admission: the managers have not started")
	}
	a.Ready = j.around.sources.AllReady()
	for _, p := range j.around.pods() {
		a.Active = append(a.Active, string(p.UID))
	}
	for resource, instances := range j.Device.GetAllocatableDevices() {
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
	// The first newline ends the line of a kubelet that was killed in the middle of it.
	if _, err := fmt.Fprintf(f, "\n%s\n", line); err != nil {
		return fmt.Errorf("record admission: %w", err)
	}
	return nil
}
