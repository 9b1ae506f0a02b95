package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/kubelet/kubelettest"
)

const (
	busyPods    = 110 // the kubelet's default of --max-pods
	busyMachine = "../../lab/machines/epyc-nps4.txt"
)

// BenchmarkResident runs the program, built with the tags of the images, on a node of 256 CPUs and 8 NUMA nodes with
// 110 pods, and changes their holdings again and again. It reports the kernel's figures of its memory: now (rss), at
// most (peak), and the part that is not the program's own file (anon); and the size of its layout. Go keeps memory and
// threads for each CPU that it may use, so the benchmark sets how many: as the chart does, or all of the node's.
func BenchmarkResident(b *testing.B) {
	program := filepath.Join(b.TempDir(), "tenon-agent")
	if out, err := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", program, ".").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	manifest, err := os.ReadFile("../../deploy/agent/daemonset.yaml")
	if err != nil {
		b.Fatal(err)
	}
	found := regexp.MustCompile(`- name: GOMAXPROCS\n\s+value: "(\d+)"\n`).FindSubmatch(manifest)
	if found == nil {
		b.Fatal("the manifest does not set GOMAXPROCS")
	}
	b.Run("deployed", func(b *testing.B) { resident(b, program, string(found[1])) })
	b.Run("on-all-CPUs", func(b *testing.B) { resident(b, program, "256") })
}

// resident measures the program with a value of GOMAXPROCS.
func resident(b *testing.B, program, processors string) {
	dir := b.TempDir()
	n := busyNode{dir: dir, layouts: make(chan *v1alpha1.NodeLayout, 1000)}
	n.files(b, 0)
	server := httptest.NewServer(n.server())
	defer server.Close()
	defer server.CloseClientConnections()
	s := &kubelettest.Service{}
	s.SetPods(n.listed()...)
	s.Serve(b, filepath.Join(dir, "kubelet.sock"))
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	cmd := exec.CommandContext(ctx, program,
		"--node-name=busy", "--kubeconfig="+n.kubeconfig(b, server.URL), "--machine="+busyMachine, "--machine-force",
		"--kubelet-config="+filepath.Join(dir, "config.yaml"), "--kubelet-config-source=files", "--state-dir="+dir,
		"--podresources-socket="+filepath.Join(dir, "kubelet.sock"),
		"--metrics-address=127.0.0.1:0", "--health-address=127.0.0.1:0")
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+processors)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer stop()
	n.await(b, 0)
	round := 0
	for b.Loop() {
		round++
		n.files(b, round)
		n.await(b, round)
	}
	status := proc(b, cmd.Process.Pid)
	b.ReportMetric(status["VmRSS"], "rss-MiB")
	b.ReportMetric(status["RssAnon"], "anon-MiB")
	b.ReportMetric(status["VmHWM"], "peak-MiB")
	b.ReportMetric(float64(n.bytes)/1024, "layout-KiB")
}

// busyNode is a node whose pods hold two CPUs each. In each round they hold other CPUs.
type busyNode struct {
	dir     string
	layouts chan *v1alpha1.NodeLayout
	base    atomic.Pointer[v1alpha1.LayoutBase]
	bytes   int
}

func (n *busyNode) cpus(pod, round int) string {
	core := 1 + (pod+round)%127
	return fmt.Sprintf("%d,%d", core, core+128)
}

// files writes the kubelet's files in a round.
func (n *busyNode) files(b *testing.B, round int) {
	b.Helper()
	cpu, memory, tables := map[string]any{}, map[string]any{}, map[string]any{}
	var shared []string // the CPUs that no pod has
	for core := range 128 {
		held := false
		for i := range busyPods {
			held = held || n.cpus(i, round) == fmt.Sprintf("%d,%d", core, core+128)
		}
		if !held {
			shared = append(shared, fmt.Sprintf("%d,%d", core, core+128))
		}
	}
	for i := range busyPods {
		uid := fmt.Sprintf("uid-%03d", i)
		cpu[uid] = map[string]string{"main": n.cpus(i, round)}
		block := map[string]any{"numaAffinity": []int{i % 8}, "type": "memory", "size": 2 << 30}
		memory[uid] = map[string]any{"main": []any{block}}
	}
	for i := range 8 {
		used := uint64((busyPods-i+7)/8) * 2 << 30
		tables[strconv.Itoa(i)] = map[string]any{"cells": []int{i},
			"memoryMap": map[string]any{"memory": map[string]uint64{"reserved": used, "free": 63<<30 - used}}}
	}
	write := func(name string, content any) {
		data, err := json.Marshal(content)
		if text, ok := content.(string); ok {
			data, err = []byte(text), nil
		}
		path := filepath.Join(n.dir, name)
		if err == nil {
			err = os.WriteFile(path+".tmp", data, 0o600)
		}
		if err == nil {
			err = os.Rename(path+".tmp", path)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if round == 0 {
		config := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n" +
			"topologyManagerPolicy: best-effort\nreservedSystemCPUs: 0,128\nmemoryManagerPolicy: Static\nreservedMemory:\n"
		for i := range 8 {
			config += fmt.Sprintf("- {numaNode: %d, limits: {memory: 1Gi}}\n", i)
		}
		write("config.yaml", config)
		write(kubelet.MemoryStateFile, map[string]any{"policyName": "Static", "machineState": tables, "entries": memory})
	}
	write(kubelet.CPUStateFile, map[string]any{"policyName": "static", "defaultCpuSet": strings.Join(shared, ","),
		"entries": cpu})
}

func (n *busyNode) listed() (out []*podresources.PodResources) {
	for i := range busyPods {
		out = append(out, kubelettest.Pod("team", fmt.Sprintf("pod-%03d", i), &podresources.ContainerResources{Name: "main"}))
	}
	return out
}

// pods are as large as real ones, because an agent has to read the parts that it drops.
func (n *busyNode) pods() (out []v1.Pod) {
	filler := strings.Repeat("x", 6<<10)
	for i := range busyPods {
		uid := fmt.Sprintf("uid-%03d", i)
		out = append(out, v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("pod-%03d", i),
				UID: types.UID(uid), ResourceVersion: "1",
				Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": filler}},
			Spec:   v1.PodSpec{NodeName: "busy", Containers: []v1.Container{{Name: "main", Image: "registry.example/app:1"}}},
			Status: v1.PodStatus{Phase: v1.PodRunning, StartTime: &metav1.Time{Time: time.Unix(int64(i), 0)}}})
	}
	return out
}

// server answers the program's requests to an API server, and passes on the layouts that it writes.
func (n *busyNode) server() http.Handler {
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, obj any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(obj)
	}
	refuse := func(w http.ResponseWriter, code int, reason metav1.StatusReason) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusFailure, Reason: reason, Code: int32(code)})
	}
	list := func(obj any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch q := r.URL.Query(); {
			case q.Get("sendInitialEvents") != "": // the client lists instead
				refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
				return
			case q.Get("watch") == "":
				reply(w, obj)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}
	mux.HandleFunc("GET /api/v1/nodes/busy", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: "busy", UID: "uid-of-node"}})
	})
	mux.HandleFunc("GET /api/v1/nodes", list(v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items:    []v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "busy", UID: "uid-of-node", ResourceVersion: "1"}}}}))
	mux.HandleFunc("GET /api/v1/pods", list(v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: n.pods()}))
	mux.HandleFunc("GET /apis/tenon.sh/v1alpha1/nodelayouts", list(metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"}}))
	mux.HandleFunc("GET /apis/tenon.sh/v1alpha1/nodelayouts/busy", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	})
	mux.HandleFunc("PATCH /apis/tenon.sh/v1alpha1/nodelayouts/busy", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var l v1alpha1.NodeLayout
		if err == nil {
			err = json.Unmarshal(body, &l)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		l.UID, l.Generation = "uid-of-layout", l.Sequence
		whole, err := l.On(n.base.Load())
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		n.bytes = len(body)
		n.layouts <- whole
		reply(w, l)
	})
	mux.HandleFunc("GET /apis/tenon.sh/v1alpha1/layoutbases", list(metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"}}))
	mux.HandleFunc("GET /apis/tenon.sh/v1alpha1/layoutbases/busy", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	})
	mux.HandleFunc("PATCH /apis/tenon.sh/v1alpha1/layoutbases/busy", func(w http.ResponseWriter, r *http.Request) {
		base := &v1alpha1.LayoutBase{}
		if err := json.NewDecoder(r.Body).Decode(base); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		base.UID, base.Generation = "uid-of-base", base.Sequence
		n.base.Store(base)
		reply(w, base)
	})
	return mux
}

func (n *busyNode) kubeconfig(b *testing.B, url string) string {
	b.Helper()
	k := clientcmdapi.NewConfig()
	k.Clusters["c"] = &clientcmdapi.Cluster{Server: url}
	k.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	k.CurrentContext = "c"
	path := filepath.Join(n.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		b.Fatal(err)
	}
	return path
}

// await returns when a layout has the pods' holdings of a round.
func (n *busyNode) await(b *testing.B, round int) {
	b.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case l := <-n.layouts:
			if len(l.Holdings) == busyPods && string(l.Holdings[0].Containers[0].CPUs) == n.cpus(0, round) {
				return
			}
		case <-deadline:
			b.Fatalf("no layout of round %d", round)
		}
	}
}

// proc reads the sizes of /proc/PID/status, in MiB.
func proc(b *testing.B, pid int) map[string]float64 {
	b.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	out := map[string]float64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w := strings.Fields(lines.Text())
		if len(w) == 3 && w[2] == "kB" {
			kib, _ := strconv.ParseFloat(w[1], 64)
			out[strings.TrimSuffix(w[0], ":")] = kib / 1024
		}
	}
	return out
}
