package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cri "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/klog/v2"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	cadvisor "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	fakecontainer "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/util/oom"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/projected"
	"k8s.io/kubernetes/pkg/volume/secret"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"

	"github.com/tenon-numa/tenon/core/topo"
)

// Options describe one kubelet.
type Options struct {
	Node    string // name of the node
	Machine *topo.Machine
	Config  *configv1beta1.KubeletConfiguration // as an administrator wrote it, without defaults
	Client  *rest.Config                        // the kubelet's access to the API server
	// Root is the kubelet's directory, which Start makes: a short path on a memory file system.
	Root   string
	Labels map[string]string // labels of the node
	// Durable containers outlive the kubelet's process: the next kubelet with the same Root finds them. Such a kubelet
	// also records the decisions of its managers, in JournalFile.
	Durable bool
	// NRI is the socket on which the container runtime serves NRI plugins; empty for none. CPUSetsFile then has the
	// pins of containers.
	NRI string
}

// Kubelet has the paths of a running kubelet's files.
type Kubelet struct {
	Root               string // state files are here
	ConfigPath         string // the effective KubeletConfiguration, defaults included
	PodResourcesSocket string

	runtime containerRuntime
}

// Start starts a kubelet and returns when it runs; its node is ready some time later. The process must have been
// prepared with [PrepareProcess]. A kubelet cannot be stopped: it ends the process if it cannot continue, and its
// goroutines outlive ctx.
func Start(ctx context.Context, o Options) (*Kubelet, error) {
	out := &Kubelet{
		Root:               o.Root,
		ConfigPath:         filepath.Join(o.Root, "config.yaml"),
		PodResourcesSocket: filepath.Join(o.Root, "pod-resources", "kubelet.sock"),
	}
	if err := os.MkdirAll(filepath.Join(o.Root, "logs"), 0o755); err != nil {
		return nil, fmt.Errorf("start kubelet %s: %w", o.Node, err)
	}
	written := withoutHost(o.Config)
	written.PodLogsDir = filepath.Join(o.Root, "logs")
	internal, versioned, err := withDefaults(written)
	if err != nil {
		return nil, fmt.Errorf("start kubelet %s: %w", o.Node, err)
	}
	file, err := configFile(versioned)
	if err != nil {
		return nil, fmt.Errorf("start kubelet %s: %w", o.Node, err)
	}
	if err := os.WriteFile(out.ConfigPath, file, 0o644); err != nil {
		return nil, fmt.Errorf("start kubelet %s: %w", o.Node, err)
	}
	if out.runtime, err = openContainerRuntime(o); err != nil {
		return nil, fmt.Errorf("start kubelet %s: %w", o.Node, err)
	}
	if o.NRI != "" {
		if err := serveNRI(&out.runtime, o.NRI, o.Root); err != nil {
			return nil, fmt.Errorf("start kubelet %s: %w", o.Node, err)
		}
	}
	deps, err := dependencies(ctx, o, internal, out.runtime)
	if err != nil {
		return nil, fmt.Errorf("start kubelet %s: %w", o.Node, err)
	}
	flags := options.NewKubeletFlags()
	flags.HostnameOverride = o.Node
	flags.RootDirectory = o.Root
	flags.CertDirectory = filepath.Join(o.Root, "pki")
	flags.NodeLabels = o.Labels
	flags.MinimumGCAge = metav1.Duration{Duration: time.Minute}
	server := &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *internal}
	if err := app.RunKubelet(ctx, server, deps); err != nil {
		return nil, fmt.Errorf("start kubelet %s: %w", o.Node, err)
	}
	return out, nil
}

// dependencies returns what the kubelet uses in place of a host: the described machine, real managers, and a
// container runtime that runs nothing.
func dependencies(ctx context.Context, o Options, c *config.KubeletConfiguration, containers containerRuntime) (
	*kubelet.Dependencies, error) {
	// By default a pod whose first sync fails waits a minute for the next one. That happens to a few pods in thousands.
	c.SyncFrequency.Duration = 10 * time.Second
	info := MachineInfo(o.Node, o.Machine)
	managers, err := compose(klog.FromContext(ctx), o.Root, o.Machine, info, c)
	if err != nil {
		return nil, err
	}
	var admissions *journal
	if o.Durable {
		admissions = &journal{Managers: managers, dir: o.Root, began: time.Now(),
			policy: c.TopologyManagerPolicy, scope: c.TopologyManagerScope}
	}
	rc := rest.CopyConfig(o.Client)
	rc.ContentType = "application/vnd.kubernetes.protobuf"
	rc.UserAgent = "kubelet"
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	deps := &kubelet.Dependencies{
		KubeClient: client, HeartbeatClient: client, EventClient: machineEvents{client.CoreV1()},
		CAdvisorInterface:         &hardware{Fake: cadvisor.Fake{NodeName: o.Node}, info: info},
		ContainerManager:          newContainerManager(managers, managers.allocatable.nodeConfig(o.Root, c), admissions),
		RemoteRuntimeService:      containers,
		RemoteImageService:        cri.NewFakeImageService(),
		ProbeManager:              prober{},
		OSInterface:               &fakecontainer.FakeOS{},
		OOMAdjuster:               oom.NewFakeOOMAdjuster(),
		Mounter:                   &mount.FakeMounter{},
		Subpather:                 &subpath.FakeSubpath{},
		HostUtil:                  hostutil.NewFakeHostUtil(nil),
		VolumePlugins:             volumePlugins(),
		TracerProvider:            noop.NewTracerProvider(),
		PodStartupLatencyTracker:  util.NewPodStartupLatencyTracker(),
		NodeStartupLatencyTracker: newLatencyTracker(),
	}
	if !kernelLogReadable() {
		deps.Recorder = &record.FakeRecorder{}
	}
	return deps, nil
}

// kernelLogReadable reports whether this process may read the kernel's log. A kubelet that records events reads that
// log for out-of-memory kills, and does not start if it may not. A kubelet with the fake recorder does not read it.
func kernelLogReadable() bool {
	f, err := os.Open("/dev/kmsg")
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// volumePlugins returns the volume plugins that need no host. It omits CSI, because that plugin is global to the
// process and waits for each node in turn.
func volumePlugins() []volume.VolumePlugin {
	var out []volume.VolumePlugin
	for _, list := range [][]volume.VolumePlugin{
		emptydir.ProbeVolumePlugins(), secret.ProbeVolumePlugins(), configmap.ProbeVolumePlugins(),
		downwardapi.ProbeVolumePlugins(), projected.ProbeVolumePlugins(),
		hostpath.FakeProbeVolumePlugins(volume.VolumeConfig{}),
	} {
		out = append(out, list...)
	}
	return out
}

// hardware takes the place of cadvisor, which reads the host.
type hardware struct {
	cadvisor.Fake
	info *machineInfo
}

func (h *hardware) VersionInfo() (*versionInfo, error) {
	return &versionInfo{KernelVersion: "described", ContainerOsVersion: "Tenon lab"}, nil
}

// disk returns the usage of the disk that every described machine has: one tenth is used.
func disk() (fsInfo, error) {
	inodes := uint64(1 << 24)
	return fsInfo{Timestamp: time.Now(), Capacity: diskBytes, Available: diskBytes / 10 * 9,
		Usage: diskBytes / 10, Inodes: &inodes, InodesFree: &inodes}, nil
}

func (h *hardware) RootFsInfo() (fsInfo, error)                     { return disk() }
func (h *hardware) ImagesFsInfo(context.Context) (fsInfo, error)    { return disk() }
func (h *hardware) ContainerFsInfo(context.Context) (fsInfo, error) { return disk() }
func (h *hardware) GetDirFsInfo(string) (fsInfo, error)             { return disk() }
