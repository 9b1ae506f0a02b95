package kubelet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	lab "github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/plugins"
)

// program is a judge in a process of its own: its input takes requests, its output gives answers (judge/wire.go).
type program struct {
	kubeletOf
	in     *json.Encoder
	out    *bufio.Reader
	failed error

	machine *topo.Machine
	prefers map[string]func(available, include []string, size int) ([]string, error)
	state   wireState
}

type (
	wireRequest struct {
		Do       string
		Dir      string                  `json:",omitempty"`
		Settings *lab.Settings           `json:",omitempty"`
		Reopen   bool                    `json:",omitempty"`
		Found    []lab.Container         `json:",omitempty"`
		Pod      *v1.Pod                 `json:",omitempty"`
		Name     string                  `json:",omitempty"`
		Devices  map[string][]wireDevice `json:",omitempty"`
	}
	wireDevice struct {
		ID        string
		NUMAs     []idset.NUMA
		Unhealthy bool
	}
	wireAnswer struct {
		Error, Panic    string
		Admit           bool
		Reason, Message string
		State           *wireState
		Ask             *struct {
			Resource           string
			Available, Include []string
			Size               int
		}
	}
	wireState struct {
		SharedCPUs string
		FreeMemory map[idset.NUMA]map[string]int64
		Healthy    map[string][]string
		Held       []wireHeld
	}
	wireHeld struct {
		Pod, Container string
		CPUs           string
		Memory         []struct {
			Kind  string
			NUMAs []idset.NUMA
			Bytes int64
		}
		Devices map[string][]wireDevice
	}
)

// built builds each judge once.
var built sync.Map

// buildJudge returns the judge of a release. What is built is kept in the user's cache.
func buildJudge(t testing.TB, release string) string {
	t.Helper()
	once, _ := built.LoadOrStore(release, sync.OnceValues(func() (string, error) {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		file := filepath.Join(cache, "tenon", "judge-"+release)
		build := exec.CommandContext(t.Context(), "judge/build", release, file)
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the judge of %s: %w\n%s", release, err, out)
		}
		return file, nil
	}))
	file, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// newProgram starts the judge of a release. It ends with the test.
func newProgram(t testing.TB, release string) *program {
	t.Helper()
	release, managers := strings.CutSuffix(release, withManagers)
	of, ok := place.ParseRelease(release)
	if !ok || managers && of < 36 {
		t.Fatalf("release %q: want one such as 1.32, or 1.37%s", release, withManagers)
	}
	var gates []string
	for name, on := range alphaGates() {
		gates = append(gates, fmt.Sprintf("%s=%t", name, on))
	}
	if managers {
		gates = append(gates, podLevelGate+"=true")
	}
	cmd := exec.CommandContext(t.Context(), buildJudge(t, release), "-gates", strings.Join(gates, ","))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the judge of %s: %v", release, err)
	}
	t.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // ended by the context of the test, where it was
	})
	return &program{kubeletOf: kubeletOf{of, managers}, in: json.NewEncoder(in), out: bufio.NewReaderSize(out, 1<<16)}
}

func (p *program) open(_ context.Context, dir string, m *topo.Machine, c *configv1beta1.KubeletConfiguration,
	_ func() []*v1.Pod) (judged, error) {
	s, err := lab.SettingsOf(m, c)
	if err != nil {
		return nil, err
	}
	p.machine, p.prefers = m, map[string]func(_, _ []string, _ int) ([]string, error){}
	_, err = p.call(wireRequest{Do: "open", Dir: dir, Settings: s, Devices: devicesOf(m)})
	return p, err
}

func (p *program) reopen(_ context.Context, dir string, m *topo.Machine, c *configv1beta1.KubeletConfiguration,
	_ func() []*v1.Pod, found []lab.Container) (judged, func() error, error) {
	s, err := lab.SettingsOf(m, c)
	if err != nil {
		return nil, nil, err
	}
	if _, err = p.call(wireRequest{Do: "open", Dir: dir, Settings: s, Reopen: true, Found: found}); err != nil {
		return nil, nil, err
	}
	return p, func() error {
		_, err := p.call(wireRequest{Do: "settle", Devices: devicesOf(m)})
		return err
	}, nil
}

// devicesOf is what plugins say of a machine's devices.
func devicesOf(m *topo.Machine) map[string][]wireDevice {
	out := map[string][]wireDevice{}
	for _, r := range m.Resources() {
		out[r.Name] = []wireDevice{}
		for _, d := range r.Devices {
			var numas []idset.NUMA
			for _, id := range plugins.Announced(m, d) {
				numas = append(numas, idset.NUMA(id))
			}
			out[r.Name] = append(out[r.Name], wireDevice{d.ID, numas, d.Unhealthy})
		}
	}
	return out
}

// call sends a request and returns the answer. The process panics where the managers did.
func (p *program) call(r wireRequest) (a wireAnswer, err error) {
	if p.failed != nil {
		return a, p.failed
	}
	if err = p.in.Encode(r); err != nil {
		p.failed = fmt.Errorf("ask the judge of %s to %s: %w", p.of, r.Do, err)
		return a, p.failed
	}
	for {
		line, err := p.out.ReadBytes('\n')
		if err == nil {
			a = wireAnswer{}
			err = json.Unmarshal(line, &a)
		}
		if err != nil {
			p.failed = fmt.Errorf("read what the judge of %s says to %s: %w", p.of, r.Do, err)
			return a, p.failed
		}
		if a.Ask == nil {
			break
		}
		p.prefer(a)
	}
	if a.State != nil {
		p.state = *a.State
	}
	switch {
	case a.Panic != "":
		panic(a.Panic)
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

// prefer answers which devices a plugin prefers.
func (p *program) prefer(a wireAnswer) {
	ids, err := p.prefers[a.Ask.Resource](a.Ask.Available, a.Ask.Include, a.Ask.Size)
	out := struct {
		IDs   []string
		Error string
	}{IDs: ids}
	if err != nil {
		out.Error = err.Error()
	}
	_ = p.in.Encode(out) // the next line has the result
}

// must carries out a request that cannot fail.
func (p *program) must(r wireRequest) wireAnswer {
	a, err := p.call(r)
	if err != nil {
		panic(err)
	}
	return a
}

func (p *program) Admit(pod *v1.Pod) lifecycle.PodAdmitResult {
	a := p.must(wireRequest{Do: "admit", Pod: pod})
	return lifecycle.PodAdmitResult{Admit: a.Admit, Reason: a.Reason, Message: a.Message}
}

func (p *program) StartContainers(pod *v1.Pod) { p.must(wireRequest{Do: "start", Name: pod.Name}) }
func (p *program) Forget(pod *v1.Pod)          { p.must(wireRequest{Do: "end", Name: pod.Name}) }
func (p *program) Collect()                    { p.must(wireRequest{Do: "collect"}) }

func (p *program) Announce(m *topo.Machine) {
	p.machine = m
	p.must(wireRequest{Do: "announce", Devices: devicesOf(m)})
}

func (p *program) Prefer(_ context.Context, resource string,
	prefer func(available, include []string, size int) ([]string, error)) error {
	p.prefers[resource] = prefer
	_, err := p.call(wireRequest{Do: "prefer", Name: resource})
	return err
}

func (p *program) Stop() error {
	_, err := p.call(wireRequest{Do: "close"})
	return err
}

func (p *program) SharedCPUs() idset.Set[idset.CPU] { return cpusIn(p.state.SharedCPUs) }

func (p *program) FreeMemory() map[idset.NUMA]map[string]int64 { return p.state.FreeMemory }

func (p *program) Healthy(resource string) []string { return p.state.Healthy[resource] }

func cpusIn(text string) idset.Set[idset.CPU] {
	cpus, err := idset.Parse[idset.CPU](text)
	if err != nil {
		panic(err)
	}
	return cpus
}

func (p *program) Holding(pod types.UID, container string) place.Holding {
	h := place.Holding{Container: container}
	for _, k := range p.state.Held {
		if k.Pod != string(pod) || k.Container != container {
			continue
		}
		h.CPUs = cpusIn(k.CPUs)
		for _, b := range k.Memory {
			h.Memory = append(h.Memory, place.Block{Kind: b.Kind, NUMAs: p.mask(b.NUMAs), Bytes: b.Bytes})
		}
		for _, r := range p.machine.Resources() { // ascending
			list, ok := k.Devices[r.Name]
			if !ok {
				continue
			}
			d := place.DeviceBlock{Resource: r.Name}
			for _, dev := range list {
				d.IDs = append(d.IDs, dev.ID)
				d.NUMAs |= p.mask(dev.NUMAs)
			}
			h.Devices = append(h.Devices, d)
		}
	}
	return h
}

func (p *program) mask(ids []idset.NUMA) (out topo.Mask) {
	for _, id := range ids {
		mask, _ := p.machine.MaskOf(id)
		out |= mask
	}
	return out
}
