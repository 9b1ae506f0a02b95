package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/desired"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// MachineReader reads the node's hardware. It need not report devices, because the kubelet reports them.
type MachineReader interface {
	// ReadMachine returns the machine, and the detail, which no placement depends on. The machine is nil if it cannot
	// be read. If both a machine and an error are returned, the detail could not be read.
	ReadMachine(ctx context.Context) (*topo.Machine, v1alpha1.Detail, error)
}

// Publisher publishes the node in another form than the layout.
type Publisher interface {
	// Object returns the kind of the published object.
	Object() string
	// Resource returns the resource of the object at the API server.
	Resource() schema.GroupVersionResource
	// Publish writes the object of n, with the name, labels and owners of meta, unless the API server has it already.
	// If read is nil, the publisher may compare with what it wrote last; otherwise it must read the object with these
	// options first. Publish returns the object that it read or wrote, or nil if it did neither.
	Publish(ctx context.Context, n *state.Node, meta metav1.ObjectMeta, read *metav1.GetOptions) (
		object metav1.Object, wrote bool, err error)
}

// Arbiter decides what containers get, and pins them, if the rules make the agent the arbiter (place.ByAgent).
// Otherwise the kubelet decides, and the Arbiter pins nothing.
type Arbiter interface {
	// Run pins containers until ctx ends. list returns the pods of the node as far as they are known, as for
	// Config.Pods; changed triggers a reconcile.
	Run(ctx context.Context, list func() []*v1.Pod, changed func())
	// Observe is called in each reconcile, while Run runs. If the agent is the arbiter by the rules of f, Observe
	// replaces the state files in seen by the agent's decisions. unpinned is the reason why containers are not pinned;
	// it is "" if they are pinned, or if the kubelet is the arbiter.
	Observe(ctx context.Context, f desired.Facts, seen *kubelet.Observation) (unpinned string, err error)
}

// Recorder records what the agent does, for example as metrics. Its methods return at once.
type Recorder interface {
	// RecordNode records the node after each reconcile that computed a layout. sequence is the last one that the agent
	// wrote or read, also if the layout did not have to be written or the write failed.
	RecordNode(n *state.Node, sequence int64)
	// RecordWrite records each write of an object of the kind; err is nil if it succeeded.
	RecordWrite(object string, err error)
	// RecordReconcile records the end of each reconcile: how long after the first change that led to it, whether
	// anything was written, and what failed.
	RecordReconcile(after time.Duration, wrote bool, err error)
}

// Config is the configuration of an agent.
type Config struct {
	// NodeName is the name of the Node, and of the layout.
	NodeName string
	// Machine reads the hardware of the node.
	Machine MachineReader
	// CheckCapacity makes the agent publish nothing while the CPUs or the memory of the machine differ from
	// Node.status.capacity. It is for machines that a file describes. It is not needed if the machine is read on the
	// node, because the kubelet reads the same files.
	CheckCapacity bool
	// KubeletConfig is the path of the KubeletConfiguration, for example /var/lib/kubelet/config.yaml, and
	// KubeletConfigDir the directory of its drop-in files. Each is empty if the kubelet has none.
	KubeletConfig, KubeletConfigDir string
	// Rules reads the kubelet's configuration. If it is nil, the agent reads the files above.
	Rules kubelet.Source
	// PodResourcesSocket is the absolute path of the kubelet's podresources socket.
	PodResourcesSocket string
	// StateDir is the kubelet's root directory, for example /var/lib/kubelet.
	StateDir string
	REST     *rest.Config
	Logger   logr.Logger
	// Translate returns what a pod requests; it may be nil. With it, a pod that the kubelet is still admitting is
	// published only when it has all that it requests.
	Translate func(*v1.Pod) (*place.Pod, error)
	// Publisher publishes an object beside the layout; it may be nil.
	Publisher Publisher
	// Arbiter pins containers. If it is nil, the agent pins none, and the kubelet is the arbiter.
	Arbiter Arbiter
	// PinConfig is the path of the file with the agent's own rules, which apply while the agent is the arbiter; "" if
	// there is none. A change of the file triggers a reconcile.
	PinConfig string
	// Recorder may be nil.
	Recorder Recorder
	// Health receives when reconciles begin and end; it may be nil.
	Health *Health
	// Pods, if not nil, is called once, before the first reconcile, with a function that lists the known pods of the
	// node. Any goroutine may call that function. Its pods have the fields that the agent needs, and the IDs of running
	// containers; they must not be changed.
	Pods func(list func() []*v1.Pod)

	// Labels are the keys of labels to copy from the Node to the published objects, at most MaxLabels.
	Labels []string

	// Interval is the least time between two writes, between MinInterval and MaxInterval; 0 means 200 ms.
	Interval time.Duration
	// Resync is the time between readings of everything on this host, between MinResync and MaxResync; 0
	// means 30 s.
	Resync time.Duration
	// Reread is the time between readings of published objects without a watch event, between MinResync and MaxReread;
	// 0 means 10 minutes.
	Reread time.Duration

	// dial is added to the options of the connection to the podresources service.
	dial []grpc.DialOption
}

// Defaults and bounds of Config. No reader needs layouts that are written more than a hundred times a second, and an
// agent that reconciles less often than these bounds looks broken.
const (
	DefaultInterval = 200 * time.Millisecond
	DefaultResync   = 30 * time.Second
	DefaultReread   = 10 * time.Minute

	MinInterval = 10 * time.Millisecond
	MaxInterval = time.Minute
	MinResync   = time.Second
	MaxResync   = time.Hour
	MaxReread   = 24 * time.Hour
	MaxLabels   = 16
)

func (c *Config) check() error {
	var faults []error
	for _, f := range []struct{ field, value string }{
		{"NodeName", c.NodeName}, {"PodResourcesSocket", c.PodResourcesSocket}, {"StateDir", c.StateDir},
	} {
		if f.value == "" {
			faults = append(faults, fmt.Errorf("%s is empty", f.field))
		}
	}
	if c.PodResourcesSocket != "" && !filepath.IsAbs(c.PodResourcesSocket) {
		faults = append(faults, fmt.Errorf("PodResourcesSocket %q is not an absolute path", c.PodResourcesSocket))
	}
	if c.Rules == nil && c.KubeletConfig == "" && c.KubeletConfigDir == "" {
		faults = append(faults, errors.New("Rules, KubeletConfig and KubeletConfigDir are all empty"))
	}
	if c.Machine == nil {
		faults = append(faults, errors.New("Machine is missing"))
	}
	if c.REST == nil {
		faults = append(faults, errors.New("REST is missing"))
	}
	for _, d := range []struct {
		field            string
		value, low, high time.Duration
	}{{"Interval", c.Interval, MinInterval, MaxInterval}, {"Resync", c.Resync, MinResync, MaxResync},
		{"Reread", c.Reread, MinResync, MaxReread}} {
		if d.value != 0 && (d.value < d.low || d.value > d.high) {
			faults = append(faults, fmt.Errorf("%s %s is not between %s and %s", d.field, d.value, d.low, d.high))
		}
	}
	return errors.Join(append(faults, CheckLabels(c.Labels))...)
}

// CheckLabels returns an error if the keys of labels to copy are too many, repeated or malformed.
func CheckLabels(keys []string) error {
	if len(keys) > MaxLabels {
		return fmt.Errorf("%d labels to copy, at most %d are", len(keys), MaxLabels)
	}
	for i, k := range keys {
		if slices.Contains(keys[:i], k) {
			return fmt.Errorf("label %q is named twice", k)
		}
		if faults := validation.IsQualifiedName(k); len(faults) > 0 {
			return fmt.Errorf("label %q: %s", k, strings.Join(faults, "; "))
		}
	}
	return nil
}

// withDefaults returns the configuration with defaults for the fields that may be left empty.
func (c Config) withDefaults() Config {
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.Resync = cmp.Or(c.Resync, DefaultResync)
	c.Reread = cmp.Or(c.Reread, DefaultReread)
	if c.Recorder == nil {
		c.Recorder = noRecorder{}
	}
	if c.Health == nil {
		c.Health = &Health{}
	}
	if c.Arbiter == nil {
		c.Arbiter = noArbiter{}
	}
	if c.Rules == nil {
		c.Rules = kubelet.Files{File: c.KubeletConfig, Dir: c.KubeletConfigDir}
	}
	return c
}

// watchedFiles returns the files whose changes trigger a reconcile.
func (c *Config) watchedFiles() []watchedFile {
	out := []watchedFile{
		{path: filepath.Join(c.StateDir, kubelet.CPUStateFile)},
		{path: filepath.Join(c.StateDir, kubelet.MemoryStateFile)},
		{path: filepath.Join(c.StateDir, kubelet.DeviceStateFile)},
		// The kubelet recreates the socket when it restarts, perhaps with another configuration.
		{path: c.PodResourcesSocket, full: true},
	}
	if c.KubeletConfig != "" {
		out = append(out, watchedFile{path: c.KubeletConfig, full: true})
	}
	if c.PinConfig != "" {
		out = append(out, watchedFile{path: c.PinConfig, full: true})
	}
	if c.KubeletConfigDir != "" {
		out = append(out, watchedFile{path: c.KubeletConfigDir, full: true, dir: true})
	}
	return out
}

// noRecorder is the Recorder of an agent that has none.
type noRecorder struct{}

func (noRecorder) RecordNode(*state.Node, int64)              {}
func (noRecorder) RecordWrite(string, error)                  {}
func (noRecorder) RecordReconcile(time.Duration, bool, error) {}

// noArbiter is the Arbiter of an agent that only observes.
type noArbiter struct{}

func (noArbiter) Run(context.Context, func() []*v1.Pod, func()) {}
func (noArbiter) Observe(context.Context, desired.Facts, *kubelet.Observation) (string, error) {
	return "", nil
}
