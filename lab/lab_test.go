package lab_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/lab"
)

func TestMain(m *testing.M) {
	lab.MaybeChild()
	if dir := os.Getenv(parentEnv); dir != "" {
		beParent(dir)
		return
	}
	os.Exit(m.Run())
}

// One cluster serves all its tests: a start takes seconds.
func TestCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := lab.Start(ctx, lab.Config{
		Nodes:    []lab.Node{{Name: "net", Machine: "xeon-2s"}, {Name: "holes", Machine: "sparse"}},
		Progress: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stopped(t, c)
	user := through(t, c.KubeconfigPath)
	t.Run("capacity", func(t *testing.T) { capacity(ctx, t, user) })
	t.Run("aligned", func(t *testing.T) { aligned(ctx, t, c, user) })
	t.Run("layout", func(t *testing.T) { layout(ctx, t, c) })
	t.Run("zones", func(t *testing.T) { zones(ctx, t, c, user) })
	t.Run("mended", func(t *testing.T) { mended(ctx, t, c, user) })
	t.Run("refused", func(t *testing.T) { refused(ctx, t, user) })
	t.Run("init containers end", func(t *testing.T) { initEnds(ctx, t, user) })
	t.Run("deleted", func(t *testing.T) { deleted(ctx, t, user) })
}

// through makes kubectl's client, from the file alone.
func through(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	out, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func capacity(ctx context.Context, t *testing.T, user kubernetes.Interface) {
	n, err := user.CoreV1().Nodes().Get(ctx, "net", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// 256Gi, minus 64Gi of pages and 4Gi of reservations.
	for name, want := range map[v1.ResourceName]string{
		"cpu": "108", "memory": "188Gi", "hugepages-1Gi": "64Gi", "intel.com/sriov_vf": "8"} {
		if got := n.Status.Allocatable[name]; got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("allocatable %s is %s, want %s", name, got.String(), want)
		}
	}
	if v := n.Status.NodeInfo.KubeletVersion; !strings.HasPrefix(v, "v1.") {
		t.Errorf("kubelet says it is %s", v)
	}
}

var whole = v1.ResourceList{
	"cpu": resource.MustParse("4"), "memory": resource.MustParse("2Gi"),
	"hugepages-1Gi": resource.MustParse("4Gi"), "intel.com/sriov_vf": resource.MustParse("2"),
}

// A Guaranteed pod runs, and the podresources API of its node lists its holdings.
func aligned(ctx context.Context, t *testing.T, c *lab.Cluster, user kubernetes.Interface) {
	create(ctx, t, user, pod("dpdk", "net", whole))
	await(ctx, t, user, "dpdk", ready)
	conn, err := grpc.NewClient("unix://"+filepath.Join(c.NodeDir("net"), "pod-resources", "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	list, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.PodResources) != 1 || len(list.PodResources[0].Containers) != 1 {
		t.Fatalf("podresources %v, want one container", list)
	}
	held := list.PodResources[0].Containers[0]
	if want := []int64{1, 2, 57, 58}; !slices.Equal(held.CpuIds, want) {
		t.Errorf("CPUs %v, want %v", held.CpuIds, want)
	}
	for _, d := range held.Devices {
		if len(d.Topology.GetNodes()) != 1 || d.Topology.Nodes[0].ID != 0 {
			t.Errorf("device %v is not on NUMA node 0", d)
		}
	}
	if len(held.Devices) != 2 || len(held.Memory) != 2 {
		t.Errorf("%d devices and %d memory blocks, want 2 and 2", len(held.Devices), len(held.Memory))
	}
}

// The agent publishes the pod's holdings.
func layout(ctx context.Context, t *testing.T, c *lab.Cluster) {
	layouts, err := client.New(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	follow(ctx, t, &v1alpha1.NodeLayout{}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return layouts.Layouts.List(ctx, o)
		},
		WatchFuncWithContext: layouts.Watch,
	}, func(e watch.Event) (bool, error) {
		l, ok := e.Object.(*v1alpha1.NodeLayout)
		if !ok || l.Name != "net" {
			return false, nil
		}
		whole, err := layouts.Get(ctx, l.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		core, err := whole.Core()
		if err != nil || len(core.Entries) == 0 || len(core.Entries[0].Holdings) == 0 {
			return false, err
		}
		if got := core.Entries[0].Holdings[0].CPUs.String(); got != "1-2,57-58" {
			return false, fmt.Errorf("layout says CPUs %s", got)
		}
		return true, nil
	})
}

// More CPUs than a NUMA node has: the kubelet's own topology manager refuses.
func refused(ctx context.Context, t *testing.T, user kubernetes.Interface) {
	create(ctx, t, user, pod("wide", "net", v1.ResourceList{
		"cpu": resource.MustParse("60"), "memory": resource.MustParse("2Gi")}))
	p := await(ctx, t, user, "wide", func(p *v1.Pod) bool { return p.Status.Phase != v1.PodPending })
	if p.Status.Phase != v1.PodFailed || p.Status.Reason != "TopologyAffinityError" {
		t.Errorf("phase %s, reason %q; want Failed, TopologyAffinityError", p.Status.Phase, p.Status.Reason)
	}
}

func initEnds(ctx context.Context, t *testing.T, user kubernetes.Interface) {
	p := pod("setup", "holes", v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("2Gi")})
	first := p.Spec.Containers[0]
	first.Name = "first"
	p.Spec.InitContainers = []v1.Container{first}
	create(ctx, t, user, p)
	await(ctx, t, user, "setup", ready)
}

func deleted(ctx context.Context, t *testing.T, user kubernetes.Interface) {
	if err := user.CoreV1().Pods("default").Delete(ctx, "dpdk", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create(ctx, t, user, pod("again", "net", whole))
	await(ctx, t, user, "again", ready)
}

// stopped stops the cluster and looks for what it left.
func stopped(t *testing.T, c *lab.Cluster) {
	if err := c.Err(); err != nil {
		t.Error(err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory %s is left: %v", c.Dir, err)
	}
	select {
	case <-c.Done():
	default:
		t.Error("the nodes' process is left")
	}
}

func pod(name, node string, amounts v1.ResourceList) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64), Containers: []v1.Container{{
			Name: "c", Image: "example.com/app:v1", Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts},
		}}},
	}
}

func create(ctx context.Context, t *testing.T, user kubernetes.Interface, p *v1.Pod) {
	t.Helper()
	if _, err := user.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func ready(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// await returns the pod when the condition holds.
func await(ctx context.Context, t *testing.T, user kubernetes.Interface, name string,
	holds func(*v1.Pod) bool) *v1.Pod {
	t.Helper()
	pods := user.CoreV1().Pods("default")
	only := fields.OneTermEqualSelector("metadata.name", name).String()
	var last *v1.Pod
	follow(ctx, t, &v1.Pod{}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return pods.Watch(ctx, o)
		},
	}, func(e watch.Event) (bool, error) {
		p, ok := e.Object.(*v1.Pod)
		if ok {
			last = p
		}
		return ok && holds(p), nil
	})
	return last
}

func follow(ctx context.Context, t *testing.T, kind runtime.Object, lw cache.ListerWatcher,
	done watchtools.ConditionFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if last, err := watchtools.UntilWithSync(ctx, lw, kind, nil, done); err != nil {
		t.Fatalf("%v; last seen: %+v", err, last)
	}
}

// A machine of the user's own that its kubelet refuses: the error contains the kubelet's message, and nothing is left.
func TestStartNamesTheKubeletsError(t *testing.T) {
	base := t.TempDir()
	_, err := lab.Start(t.Context(), lab.Config{
		Dir:   base,
		Nodes: []lab.Node{{Name: "n", Machine: "mine"}},
		Machines: fstest.MapFS{
			"mine.txt": {Data: []byte("numa 0 cpus 0-3 memory 8Gi")},
			"mine.yaml": {Data: []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
				"cpuManagerPolicy: static\n")}, // without a reservation
		},
	})
	if err == nil || !strings.Contains(err.Error(), "static policy") {
		t.Errorf("error %v does not say what the static policy lacks", err)
	}
	if left, _ := os.ReadDir(base); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestParseNodes(t *testing.T) {
	got, err := lab.ParseNodes("2xxeon-2s, gpu-8")
	want := []lab.Node{
		{Name: "xeon-2s-1", Machine: "xeon-2s"}, {Name: "xeon-2s-2", Machine: "xeon-2s"}, {Name: "gpu-8", Machine: "gpu-8"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"", "0xlaptop", "201xlaptop", "150xlaptop,150xgpu-8", "Laptop",
		"99999999999999999999xlaptop"} {
		if got, err := lab.ParseNodes(bad); err == nil {
			t.Errorf("ParseNodes(%q) = %v, want an error", bad, got)
		}
	}
}
