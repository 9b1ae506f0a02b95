package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// judge has the managers of one machine, and the pods that the managers see.
type judge struct {
	managers
	ask   func(question) (preference, error) // asks the reader of the answers what a device plugin prefers
	ready bool                               // see readiness

	mu      sync.Mutex // guards pods, which goroutines of the managers read
	pods    []*v1.Pod
	looping chan struct{} // closed when the CPU manager's loop has ended; nil if the CPU manager runs none. See active.
	looped  bool          // looping is closed
}

// do carries a request out. The answer has the state of the managers afterwards, or the error or panic of the
// request.
func (j *judge) do(r request) (a answer) {
	defer func() {
		if why := recover(); why != nil {
			a = answer{Panic: fmt.Sprint(why)}
		}
	}()
	var err error
	switch r.Do {
	case "open":
		err = j.open(r)
	case "admit":
		a = j.admit(r.Pod)
	case "start":
		j.start(r.Name)
	case "end":
		j.end(r.Name)
	case "collect":
		j.collect()
	case "announce":
		j.announce(r.Devices)
	case "prefer":
		err = j.connected(r.Name, plugin{name: r.Name, ask: j.ask})
	case "settle":
		j.ready = true
		err = j.connect(r.Devices)
	case "close":
		return done(j.stop())
	default:
		err = fmt.Errorf("unknown request %q", r.Do)
	}
	if err != nil {
		return done(err)
	}
	a.State = j.state()
	return a
}

func done(err error) answer {
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{}
}

// open composes the managers and starts them. It returns when the CPU manager's loop has ended; see active. After a
// restart (Reopen) it keeps the pods, and devices are connected later, by the request "settle".
func (j *judge) open(r request) error {
	if !r.Reopen {
		j.pods = nil
	}
	j.ready, j.looping, j.looped = !r.Reopen, nil, false
	if r.Settings.CPUPolicy == "static" {
		j.looping = make(chan struct{})
	}
	if err := j.compose(r.Dir, r.Settings); err != nil {
		return err
	}
	if err := j.startAll(j.active, (*readiness)(j), r.Found); err != nil {
		_ = j.stop() // nothing may have been started
		return err
	}
	if j.looping != nil {
		<-j.looping
	}
	if r.Reopen {
		return nil
	}
	return j.connect(r.Devices)
}

// readiness reports whether the sources of pods are ready. They are ready from the start, or after a restart from the
// request "settle" on. Until then, the managers free nothing.
type readiness judge

func (*readiness) AddSource(string) {}
func (r *readiness) AllReady() bool { return r.ready }

// active returns the active pods, and stops the CPU manager's loop. With the static policy, the CPU manager starts a
// goroutine that reconciles containers forever. It would keep the managers in memory, and the CPU manager has no way
// to end it. This goroutine is the first that calls active, so active ends the goroutine at its first call.
func (j *judge) active() []*v1.Pod {
	if j.looping != nil && !j.looped {
		j.looped = true
		close(j.looping)
		runtime.Goexit()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.pods)
}

// admit lists a pod as active, and asks the managers to admit it. If a pod of this name is listed already, that pod
// is admitted again.
func (j *judge) admit(pod *v1.Pod) answer {
	j.mu.Lock()
	if at := j.at(pod.Name); at >= 0 {
		pod = j.pods[at]
	} else {
		j.pods = append(slices.Clone(j.pods), pod)
	}
	j.mu.Unlock()
	got := j.decide(pod)
	if got.Admit {
		if err := j.giveDevices(pod); err != nil {
			return answer{Reason: "UnexpectedAdmissionError", Message: err.Error()}
		}
	}
	return answer{Admit: got.Admit, Reason: got.Reason, Message: got.Message}
}

// at returns the index of the listed pod with a name, or -1.
func (j *judge) at(name string) int {
	return slices.IndexFunc(j.pods, func(p *v1.Pod) bool { return p.Name == name })
}

func each(pod *v1.Pod, do func(c *v1.Container)) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			do(&list[i])
		}
	}
}

// start reports to the managers that the containers of an admitted pod start, one after the other
// (cm/internal_container_lifecycle_linux.go).
func (j *judge) start(name string) {
	if at := j.at(name); at >= 0 {
		pod := j.pods[at]
		each(pod, func(c *v1.Container) { j.startContainer(pod, c, string(pod.UID)+"/"+c.Name) })
	}
}

// end removes a pod from the active pods. The managers free what it holds when they list the active pods next.
func (j *judge) end(name string) {
	at := j.at(name)
	if at < 0 {
		return
	}
	pod := j.pods[at]
	each(pod, func(c *v1.Container) { j.forget(pod, c, string(pod.UID)+"/"+c.Name) })
	j.mu.Lock()
	j.pods = slices.Delete(slices.Clone(j.pods), at, at+1)
	j.mu.Unlock()
}

func (j *judge) announce(devices map[string][]device) {
	for name, list := range devices {
		j.listed(name, announcement(list))
	}
}

// connect registers a device plugin for every resource, with its devices.
func (j *judge) connect(devices map[string][]device) error {
	for name := range devices {
		if err := j.connected(name, plugin{name: name}); err != nil {
			return fmt.Errorf("connect devices of %s: %w", name, err)
		}
	}
	j.announce(devices)
	return nil
}

// providers are the managers in the order in which a kubelet adds them to the topology manager
// (cm/container_manager_linux.go, NewContainerManager).
func (m *managers) providers() []topologymanager.HintProvider {
	return []topologymanager.HintProvider{m.device, m.cpu, m.memory}
}

func socketIn(dir string) string { return filepath.Join(dir, "device-plugins", "kubelet.sock") }
