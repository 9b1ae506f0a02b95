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

// judge is the managers of one machine, and its pods.
type judge struct {
	managers
	ask   func(question) (preference, error)
	ready bool // the sources of pods are ready

	mu      sync.Mutex // guards pods, which goroutines of the managers read
	pods    []*v1.Pod
	looping chan struct{} // closed when that loop has ended; nil where there is none
	looped  bool
}

// do carries a request out.
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

// readiness reports whether the sources of pods are ready: after a restart, from the request "settle" on.
type readiness judge

func (*readiness) AddSource(string) {}
func (r *readiness) AllReady() bool { return r.ready }

// active lists the pods. Its first caller is the loop in which a CPU manager with the static policy reconciles
// containers. That loop cannot be stopped otherwise and keeps its managers in memory, so active ends its goroutine.
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

// start starts the containers of an admitted pod, one after the other (cm/internal_container_lifecycle_linux.go).
func (j *judge) start(name string) {
	if at := j.at(name); at >= 0 {
		pod := j.pods[at]
		each(pod, func(c *v1.Container) { j.startContainer(pod, c, string(pod.UID)+"/"+c.Name) })
	}
}

// end removes a pod from the list of active ones; the managers notice that when they list the pods next.
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

// connect registers a device plugin for every resource, and announces its devices.
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
