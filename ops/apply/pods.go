package apply

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"regexp"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
)

// This file changes kubelets by one privileged pod per node, which exists only during the change. The pod runs
// node.sh. It first logs the kubelet's present file. Begin merges the drop-in file of the plan into that file, and
// sends the result with the order to change. The orders to keep or to undo follow later.

//go:embed node.sh
var nodeScript string

// label marks the pods of this package for administrators.
const label = "tenon.sh/kubelet-change"

// The annotations by which the pod receives orders: orderKey has the order (change, keep or undo), and fileKey the
// kubelet's new file in base64.
const (
	orderKey = "tenon.sh/order"
	fileKey  = "tenon.sh/file"
)

// PodOptions are the administrator's choices for the pods that change nodes.
type PodOptions struct {
	Namespace string
	// Image is a container image that has sh, awk, base64 and nsenter, such as busybox.
	Image string
	// Stop and Start are the shell commands on the host that stop and start the kubelet.
	Stop, Start string
	// ConfigDir, Config and Root are the kubelet's --config-dir, --config and --root-dir. The pod reads empty ones
	// from the command line of the kubelet.
	ConfigDir, Config, Root string
	// KeepWithin is the time after which a node restores its old configuration, unless Keep comes first.
	KeepWithin time.Duration
}

// Pods implements [Node] with pods.
type Pods struct {
	options PodOptions
	core    *objects.Core
	raw     rest.Interface
}

// NewPods returns a Pods for the cluster of cfg, with the rights of cfg.
func NewPods(cfg *rest.Config, o PodOptions) (*Pods, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	core, err := objects.NewCore(cfg)
	if err != nil {
		return nil, err
	}
	plain := rest.CopyConfig(cfg)
	plain.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	raw, err := rest.UnversionedRESTClientFor(plain)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &Pods{options: o, core: core, raw: raw}, nil
}

// Configz reads the configuration of a node's kubelet through the API server.
func (p *Pods) Configz(ctx context.Context, node string) ([]byte, error) {
	return bounded(ctx, p.raw.Get().AbsPath("/api/v1/nodes", node, "proxy/configz"))
}

// maxAnswer bounds an answer that comes from a node, in bytes. The node controls the content and the length.
const maxAnswer = 1 << 20

// bounded returns the answer to a request. It returns an error if the answer has more than maxAnswer bytes.
func bounded(ctx context.Context, r *rest.Request) ([]byte, error) {
	body, err := r.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", r.URL().Path, err)
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("read %s: the answer has more than %d bytes", r.URL().Path, maxAnswer)
	}
	return data, nil
}

// podName returns the name of the pod that changes a node. It cuts long names of nodes, so a hash makes the name
// unique.
func podName(node string) string {
	h := fnv.New32a()
	h.Write([]byte(node))
	return fmt.Sprintf("tenon-kubelet-%.40s-%08x", strings.Trim(node, "-."), h.Sum32())
}

// Own reports whether a pod is the one that changes a node. It compares name and namespace, because other pods may
// have the label.
func (p *Pods) Own(node string, pod *v1.Pod) bool {
	return pod.Namespace == p.options.Namespace && pod.Name == podName(node)
}

func (p *Pods) pods() *objects.Client[*v1.Pod, *v1.PodList] {
	return p.core.Pods.In(p.options.Namespace)
}

// fileLine matches the line of the pod's log that has the kubelet's present file, in base64.
var fileLine = regexp.MustCompile(`(?m)^tenon: file (\S*)$`)

// Begin implements [Node].
func (p *Pods) Begin(ctx context.Context, node string, c Configuration) error {
	if err := accept(node, c); err != nil {
		return err
	}
	log, err := p.startPod(ctx, node, c)
	if err != nil || strings.Contains(log, "tenon: kept\n") { // kept: an interrupted change was complete
		return err
	}
	found := fileLine.FindStringSubmatch(log)
	old, err := base64.StdEncoding.DecodeString(found[1])
	if err != nil {
		return fmt.Errorf("read the file of node %s: %w", node, err)
	}
	pod, err := p.pods().Get(ctx, podName(node), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if pod.Annotations[orderKey] != "" { // a change was interrupted after this order
		return nil
	}
	merged, err := Merge(string(old), c.DropIn)
	if err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	return p.order(ctx, node, "change", base64.StdEncoding.EncodeToString([]byte(merged)))
}

// startPod creates the pod that changes a node, unless it exists. It waits until the pod has logged the kubelet's
// file, and returns the pod's log. If the pod logs a failure, startPod deletes the pod and returns the reason. It
// replaces a pod that has restored the old configuration or has otherwise failed.
func (p *Pods) startPod(ctx context.Context, node string, c Configuration) (log string, err error) {
	why := "it does not start"
	within := p.options.KeepWithin
	err = wait.PollUntilContextTimeout(ctx, time.Second, within, true, func(ctx context.Context) (bool, error) {
		pod, err := p.pods().Get(ctx, podName(node), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = p.pods().Create(ctx, p.pod(node, c), metav1.CreateOptions{})
			return false, err
		}
		if err != nil {
			return false, err
		}
		if log, err = p.log(ctx, node); err != nil {
			why = err.Error()
			return false, nil
		}
		switch {
		case strings.Contains(log, "tenon: failed: "):
			_, why, _ = strings.Cut(log, "tenon: failed: ")
			return false, errors.Join(errors.New(strings.TrimSpace(why)), p.remove(ctx, node))
		case strings.Contains(log, "tenon: restored\n") || pod.Status.Phase == v1.PodFailed:
			return false, p.remove(ctx, node) // left by an interrupted attempt; another pod is created
		}
		return fileLine.MatchString(log), nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = fmt.Errorf("pod %s/%s has not begun within %s: %s", p.options.Namespace, podName(node), within, why)
	}
	return log, err
}

func (p *Pods) log(ctx context.Context, node string) (string, error) {
	data, err := bounded(ctx, p.raw.Get().AbsPath("/api/v1/namespaces", p.options.Namespace, "pods", podName(node), "log"))
	return string(data), err
}

// order writes an order to the node's pod.
func (p *Pods) order(ctx context.Context, node, order, file string) error {
	annotations := map[string]string{orderKey: order}
	if file != "" {
		annotations[fileKey] = file
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err == nil {
		_, err = p.pods().Patch(ctx, podName(node), types.MergePatchType, data, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("order node %s to %s: %w", node, order, err)
	}
	return nil
}

// Keep implements [Node].
func (p *Pods) Keep(ctx context.Context, node string) error {
	if err := p.order(ctx, node, "keep", ""); err != nil {
		return err
	}
	log, err := p.awaitEnd(ctx, node)
	if err != nil {
		return err
	}
	if !strings.Contains(log, "tenon: kept\n") {
		return errors.Join(errors.New("the node has restored its old configuration"), p.remove(ctx, node))
	}
	return p.remove(ctx, node)
}

// Undo implements [Node]. The pod receives the order only while the kubelet runs. Otherwise the pod restores the old
// configuration by itself when the time for Keep is over.
func (p *Pods) Undo(ctx context.Context, node string) error {
	err := p.order(ctx, node, "undo", "")
	if apierrors.IsNotFound(err) {
		return nil // nothing was begun
	}
	if err != nil {
		return err
	}
	log, err := p.awaitEnd(ctx, node)
	if err != nil {
		return err
	}
	if !strings.Contains(log, "tenon: restored\n") {
		return fmt.Errorf("the node did not restore its old configuration: see the log of pod %s/%s", p.options.Namespace,
			podName(node))
	}
	return p.remove(ctx, node)
}

// awaitEnd waits until a node's pod has ended, and returns its log.
func (p *Pods) awaitEnd(ctx context.Context, node string) (log string, err error) {
	within := 2*p.options.KeepWithin + time.Minute
	err = wait.PollUntilContextTimeout(ctx, time.Second, within, true, func(ctx context.Context) (bool, error) {
		pod, err := p.pods().Get(ctx, podName(node), metav1.GetOptions{})
		if err != nil || pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			return false, err
		}
		log, err = p.log(ctx, node)
		return err == nil, nil
	})
	if err != nil {
		return "", fmt.Errorf("wait for pod %s/%s: %w", p.options.Namespace, podName(node), err)
	}
	return log, nil
}

func (p *Pods) remove(ctx context.Context, node string) error {
	err := p.pods().Delete(ctx, podName(node), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s/%s: %w", p.options.Namespace, podName(node), err)
	}
	return nil
}

// pod returns the pod that changes a node. Its container sees the host's processes, and starts again after the node
// has restarted.
func (p *Pods) pod(node string, c Configuration) *v1.Pod {
	o, yes, no := p.options, true, false
	env := func(name, value string) v1.EnvVar { return v1.EnvVar{Name: name, Value: value} }
	field := func(file, key string) v1.DownwardAPIVolumeFile {
		return v1.DownwardAPIVolumeFile{Path: file,
			FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + key + "']"}}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(node), Labels: map[string]string{label: "true"}},
		Spec: v1.PodSpec{
			NodeName: node, HostPID: true, HostNetwork: true, RestartPolicy: v1.RestartPolicyOnFailure,
			PriorityClassName: "system-node-critical", AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}},
			Containers: []v1.Container{{
				Name: "change", Image: o.Image, Command: []string{"sh", "-c", nodeScript},
				Env: []v1.EnvVar{env("HOST", "nsenter -t 1 -m -u -i -n -p --"), env("PROC", "/proc"),
					env("ORDERS", "/orders"), env("STOP", o.Stop), env("START", o.Start),
					env("STATE_FILES", strings.Join(c.StateFiles, " ")), env("KUBELET_CONFIG_DIR", o.ConfigDir),
					env("KUBELET_CONFIG", o.Config), env("KUBELET_ROOT", o.Root),
					env("WITHIN", fmt.Sprint(int(o.KeepWithin.Seconds())))},
				SecurityContext: &v1.SecurityContext{Privileged: &yes},
				VolumeMounts:    []v1.VolumeMount{{Name: "orders", MountPath: "/orders"}},
			}},
			Volumes: []v1.Volume{{Name: "orders", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{
				Items: []v1.DownwardAPIVolumeFile{field("order", orderKey), field("file", fileKey)}}}}},
		},
	}
}
