package house_test

import (
	"fmt"
	"go/ast"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tenon-numa/tenon"

// pure is the part of the standard library that decides nothing about the world: no files, network,
// clock, chance, logs, reflection or goroutines.
var pure = words(
	`bufio cmp container/heap errors fmt io iter maps math math/bits slices strconv strings unicode unicode/utf8`,
)

// floor is what the non-test code of the packages that match a pattern may import.
type floor struct {
	pattern string   // "a/b", or "a/b/..." for a/b and all below it
	std     []string // packages of the standard library; nil: all of it
	own     []string // patterns of this module
	outside []string // modules
}

// floors is the policy. The first row whose pattern matches a package decides; a package without a row
// has no floor yet, and that is an error.
var floors = []floor{
	// Floor 0: values and algorithms, in this order.
	{"core/printable", pure, nil, nil},
	{"core/idset", pure, words(`core/printable`), nil},
	// A pool finds machines that are in use by a digest of their description, and keeps none.
	{"core/topo", append(words(`crypto/sha256 weak`), pure...), words(`core/idset`), nil},
	{"core/place", pure, words(`core/idset core/topo`), nil},
	{"core/place/scenario", pure, words(`core/idset core/topo core/place`), nil},
	{"core/score", pure, words(`core/idset core/topo core/place`), nil},
	{"core/sim", pure, words(`core/defrag core/place core/place/scenario core/score core/state core/topo core/whatif`), nil},
	{"core/evict", pure, words(`core/topo core/place`), nil},
	{"core/pin", pure, words(`core/idset core/topo core/place`), nil},
	{"core/wake", pure, nil, nil},
	// Values are for everybody, and the ledger for those who follow a cluster through time: see strangers.
	{"core/state", pure, words(`core/topo core/place core/idset`), nil},
	{"core/estimate", pure, words(`core/idset core/topo core/place core/state`), nil},
	// The ledger and the table of answers have the only locks in core. The ledger keeps nothing of machines that no
	// node has any more.
	{
		"core/ledger",
		append(words(`sync sync/atomic weak`), pure...),
		words(`core/estimate core/idset core/topo core/place core/state`),
		nil,
	},

	{
		"core/answers",
		append(words(`sync sync/atomic weak`), pure...),
		words(`core/ledger core/place core/score core/state core/topo`),
		nil,
	},
	{"core/guard", pure, words(`core/place core/state`), nil},
	{"core/overlay", pure, words(`core/place core/state`), nil},
	{"core/assign", pure, words(`core/evict core/place core/state`), nil},
	{"core/sample", pure, nil, nil},
	{"core/whatif", pure, words(`core/assign core/evict core/guard core/idset core/topo core/place core/score core/state`), nil},

	{"core/defrag", pure, words(`core/assign core/evict core/state core/topo core/whatif`), nil},
	{"core/summary", pure, words(`core/place core/printable core/whatif`), nil},

	// Floor 1: wire types.
	{"api/document", nil, words(`core/... api/v1alpha1`), nil},
	{"api/config", nil, words(`core/...`), words(`k8s.io/apimachinery sigs.k8s.io/yaml`)},
	{
		"api/nrt",
		nil,
		words(`core/place api/objects api/v1alpha1/client`),
		append(words(`k8s.io/apimachinery k8s.io/client-go`), topologies...),
	},
	{"api/provisioning", nil, words(`api/objects core/printable`), words(`k8s.io/api k8s.io/apimachinery k8s.io/client-go`)},
	{"api/objects", nil, nil, words(`k8s.io/api k8s.io/apimachinery k8s.io/client-go`)},
	{"api/objects/groups", nil, words(`api/objects`), words(`k8s.io/api k8s.io/client-go`)},
	{"api/pod", nil, words(`core/place core/printable core/topo api/pod/quantity`), words(`k8s.io/api k8s.io/apimachinery`)},
	{"api/pod/quantity", nil, words(`core/printable`), words(`k8s.io/api k8s.io/apimachinery`)},
	{"api/pod/podtest", nil, nil, words(`k8s.io/api k8s.io/apimachinery`)},
	{
		"api/v1alpha1/client",
		nil,
		words(`core/... api/objects api/v1alpha1`),
		words(`k8s.io/apimachinery k8s.io/client-go`),
	},
	{"api/v1alpha1", nil, words(`core/...`), words(`k8s.io/apimachinery`)},
	{"deploy/crd", words(`embed`), nil, nil},
	{"deploy", words(`embed`), nil, nil},
	{"deploy/monitoring", nil, nil, nil},

	// Floor 2: hands. Each reaches down, and to what its own folder has below it.
	{"node/agent", nil, words(`core/... api/... node/desired node/kubelet`), onNode},
	{"node/arbiter", nil, words(`core/... api/... node/cgroup node/desired node/kubelet node/nri`), append(words(`github.com/containerd/nri`),
		onNode...)},
	// What is to be published is a pure function of what was observed.
	{
		"node/desired",
		append(words(`reflect time`), pure...),
		words(`core/... api/pod api/v1alpha1 node/kubelet`),
		words(`k8s.io/api k8s.io/apimachinery`),
	},
	{"node/cgroup", nil, words(`core/idset core/printable api/pod`), words(`k8s.io/api`)},
	{"node/hardware", nil, words(`core/idset core/topo api/v1alpha1 node/sysfs`), words(`github.com/go-logr/logr`)},
	{"node/metrics", nil, words(`core/... node/cgroup`), words(`github.com/prometheus/client_golang`)},
	{
		"node/nrt",
		nil,
		words(`core/... api/nrt`),
		append(words(`github.com/go-logr/logr k8s.io/apimachinery k8s.io/client-go`), topologies...),
	},
	{"node/nri", nil, words(`core/idset core/pin core/place core/topo api/v1alpha1`),
		words(`github.com/containerd/nri github.com/go-logr/logr`)},
	{"node/nri/nritest", nil, nil, words(`github.com/containerd/nri`)},
	{"node/sysfs", nil, words(`core/idset core/printable core/topo`), words(`golang.org/x/tools`)},
	{"node/kubelet/fields", nil, words(`core/printable`), words(`go.yaml.in/yaml/v3 k8s.io/kubelet`)},
	{"node/...", nil, words(`core/... api/...`), onNode},
	{"cluster/kube", nil, words(`core/... api/... cluster/nrt`), append(topologies, inCluster...)},
	{"cluster/nrt", nil, words(`core/... api/...`), append(topologies, inCluster...)},
	{"cluster/claims", nil, words(`core/idset core/printable core/topo`), words(`k8s.io/api k8s.io/apimachinery`)},
	{"cluster/held", nil, words(`core/... api/document api/pod api/v1alpha1 cluster/claims cluster/kube`),
		words(`k8s.io/api k8s.io/apimachinery`)},
	{"cluster/allocate", nil, words(`core/place core/printable core/whatif api/pod cluster/claims cluster/kube`),
		words(`k8s.io/api k8s.io/apimachinery k8s.io/dynamic-resource-allocation`)},
	{"cluster/group", nil, nil, words(`k8s.io/api`)},
	{"cluster/manifest", nil, words(`api/pod/quantity core/printable`), append(words(`go.yaml.in/yaml/v3`), inCluster...)},
	{
		"cluster/stage",
		nil,
		words(`core/... api/... cluster/allocate cluster/group cluster/held cluster/kube cluster/manifest cluster/nrt`),
		append(topologies, inCluster...),
	},
	{
		"cluster/live",
		nil,
		words(`core/ledger core/printable core/state api/document api/objects/... api/pod api/v1alpha1 cluster/claims
			cluster/group cluster/kube cluster/nrt`),
		append(topologies, inCluster...),
	},
	{"cluster/view", nil, words(`core/... api/document api/pod cluster/claims cluster/group cluster/held cluster/kube cluster/live
		cluster/stage`), inCluster},
	{"cluster/live/livetest", nil, words(`core/... api/v1alpha1`), words(`k8s.io/api k8s.io/apimachinery`)},
	{"cluster/kube/kubetest", nil, words(`core/... api/v1alpha1 cluster/kube`), append(topologies, inCluster...)},

	// What runs in a scheduler. follow, booking, report and metrics are for every framework: Volcano's plugin has them.
	{"scheduler/inspect", nil, words(`core/... api/document`), nil},
	{"scheduler/report", nil, words(`core/... api/... scheduler/inspect cluster/kube`), append(words(`k8s.io/utils`), inCluster...)},
	{"scheduler/metrics", nil, words(`core/... api/config api/document scheduler/inspect scheduler/report`), words(`k8s.io/component-base`)},
	{
		"scheduler/follow",
		nil,
		words(`core/ledger core/state core/topo core/whatif api/pod api/v1alpha1 api/v1alpha1/client cluster/kube cluster/nrt
			scheduler/metrics scheduler/report`),
		append(words(`github.com/k8stopologyawareschedwg/noderesourcetopology-api`), inCluster...),
	},
	{"scheduler/booking", nil, words(`core/ledger core/place core/score core/state api/pod cluster/kube scheduler/follow
		scheduler/metrics`),
		inCluster},
	{"scheduler/fwk", nil, nil, words(`k8s.io/api k8s.io/kube-scheduler k8s.io/kubernetes`)},
	{"scheduler/profiles", nil, words(`api/config scheduler/fwk`), append(words(`k8s.io/kube-scheduler k8s.io/kubernetes`), inCluster...)},
	{"scheduler/profiles/profilestest", nil, nil, words(`k8s.io/klog/v2 k8s.io/kubernetes`)},
	{"scheduler/candidates", nil, words(`core/answers core/ledger core/sample core/state core/topo scheduler/fwk`),
		words(`k8s.io/api k8s.io/apimachinery k8s.io/kube-scheduler k8s.io/kubernetes`)},
	{"scheduler/preempt", nil, words(`core/... api/document api/pod scheduler/fwk cluster/kube`), append(words(`k8s.io/apiserver
		k8s.io/kube-scheduler k8s.io/kubernetes`), inCluster...)},
	{"scheduler/steer", nil, words(`core/idset core/printable api/config api/pod cluster/claims scheduler/fwk`),
		append(words(`k8s.io/apiserver k8s.io/dynamic-resource-allocation k8s.io/kube-scheduler k8s.io/kubernetes`), inCluster...)},
	{"scheduler/arrange", nil, words(`api/config core/assign scheduler/fwk`),
		append(words(`k8s.io/apiserver k8s.io/kube-scheduler k8s.io/kubernetes`), inCluster...)},
	{"scheduler/promise", nil, words(`cluster/claims core/place core/state core/topo core/whatif`), words(`k8s.io/api`)},
	{"scheduler/capacity", nil, words(`core/... api/pod api/provisioning cluster/claims cluster/group cluster/kube cluster/manifest cluster/stage scheduler/booking scheduler/promise`),
		inCluster},
	{"scheduler/failures", nil, nil, nil},
	{"scheduler/gangs", nil, words(`core/ledger core/state`), nil},
	{"scheduler/waiting", nil, words(`api/pod core/ledger core/place core/state core/wake scheduler/preempt`),
		append(words(`k8s.io/component-helpers`), inCluster...)},
	{
		"scheduler/plugin",
		nil,
		words(`core/... api/... cluster/claims cluster/kube cluster/stage guests/affinity scheduler/arrange scheduler/booking scheduler/candidates scheduler/capacity
			scheduler/failures scheduler/follow scheduler/fwk scheduler/gangs scheduler/inspect scheduler/metrics scheduler/preempt
			scheduler/promise scheduler/report scheduler/steer scheduler/waiting`),
		append(words(`github.com/k8stopologyawareschedwg/noderesourcetopology-api
			k8s.io/apiserver k8s.io/component-base k8s.io/kube-scheduler k8s.io/kubernetes`), inCluster...),
	},
	{"scheduler/server", nil, words(`core/state api/... scheduler/fwk scheduler/inspect cluster/nrt scheduler/profiles scheduler/plugin internal/version`),
		append(words(`k8s.io/apiserver k8s.io/component-base k8s.io/kube-scheduler k8s.io/kubernetes
			github.com/spf13/cobra`), inCluster...)},

	// What an administrator runs.
	{"ops/bundle", nil, nil, inCluster},
	{"ops/doctor", nil, words(`core/idset core/place core/printable core/state core/topo core/whatif api/... deploy deploy/crd
		cluster/claims cluster/kube ops/schedulers cluster/stage`),
		append(topologies, inCluster...)},
	{"ops/evict", nil, nil, inCluster},
	{"ops/room", nil, words(`api/objects api/pod api/provisioning ops/evict`), inCluster},
	{"ops/apply", nil, words(`api/document api/objects api/pod api/v1alpha1 api/v1alpha1/client ops/evict`), inCluster},
	{"ops/rollout", nil, words(`core/place core/state core/topo core/whatif api/... cluster/kube cluster/stage`),
		append(topologies, inCluster...)},
	{"ops/schedulers", nil, words(`api/config api/document api/objects`),
		append(words(`go.yaml.in/yaml/v3 k8s.io/kube-scheduler`), inCluster...)},
	{"ops/use", nil, words(`core/idset api/document api/objects api/v1alpha1`),
		append(words(`github.com/prometheus/client_golang github.com/prometheus/client_model github.com/prometheus/common
			k8s.io/streaming`), inCluster...)},
	{"face/chart", nil, nil, nil},
	{"face/draw", nil, words(`core/... api/document`), words(`golang.org/x/term`)},
	{"face/...", nil, words(`core/assign core/defrag core/evict core/guard core/idset core/place core/printable core/score core/sim core/state core/topo
		core/summary core/whatif api/... cluster/live cluster/view face/...`),
		words(`github.com/spf13/cobra github.com/spf13/pflag golang.org/x/term k8s.io/apimachinery k8s.io/cli-runtime k8s.io/client-go sigs.k8s.io/yaml`)},

	// Guests: what most clusters do without. Only commands know them, and the plugin the algorithm of affinity.
	{"guests/affinity", pure, words(`core/idset core/topo core/place`), nil},
	{"guests/affinity/mover", nil, words(`core/... api/pod api/v1alpha1 guests/affinity guests/affinity/traffic node/cgroup
		node/nri`), append(words(`github.com/prometheus/client_golang`), onNode...)},
	{"guests/affinity/traffic", nil, nil, words(`golang.org/x/sys`)},
	{"guests/numatopo", nil, words(`core/...`), words(`github.com/go-logr/logr k8s.io/apimachinery k8s.io/client-go`)},

	{"lab/cast", nil, nil, nil},
	{"lab/machines", nil, words(`core/...`), words(`k8s.io/kubelet sigs.k8s.io/yaml`)},
	// What grades schedulers asks the kubelets' managers, and no model of them.
	{"lab/conformance/judge", nil, words(`core/topo lab/kubelet`), all()},
	{"lab/...", nil, words(`core/... api/... deploy/... node/... cluster/... scheduler/... ops/... guests/...
		lab/... internal/version`), all()},

	// Floor 3: wiring.
	{"cmd/...", nil, words(`core/... api/... deploy/... node/... cluster/... scheduler/... ops/... face/...
		guests/... lab/... cmd/... internal/version`), all()},

	// Beside the house.
	{"internal/version", append(words(`runtime/debug`), pure...), nil, nil},
	{"internal/golden", nil, nil, words(`github.com/google/go-cmp`)},
	{"internal/house", nil, nil, nil},
	{"internal/house/measure", nil, words(`internal/house`), nil},
	// Whoever tries Tenon waits for nothing but the standard library before there is progress to see.
	{"try", nil, nil, nil},
	{"test", nil, words(`test/debian`), nil},
	{
		"test/bench/...",
		nil,
		words(`core/... api/... deploy/... node/kubelet node/nrt cluster/... scheduler/... ops/... lab/...
			test/bench/...`),
		all(),
	},
	{"test/vm/...", nil, words(`core/... api/... lab/... test/debian test/vm/...`), all()},
	{"test/console", nil, nil, words(`github.com/chromedp/cdproto github.com/chromedp/chromedp k8s.io/api k8s.io/apimachinery
		k8s.io/client-go`)},
	{"test/mutate", nil, words(`core/place`), nil},
	{"test/...", nil, nil, nil},
}

var (
	onNode = words(`github.com/fsnotify/fsnotify github.com/go-logr/logr google.golang.org/grpc k8s.io/api
		k8s.io/apimachinery k8s.io/client-go k8s.io/klog/v2 k8s.io/kubelet sigs.k8s.io/yaml`)
	topologies = words(
		`github.com/k8stopologyawareschedwg/noderesourcetopology-api github.com/k8stopologyawareschedwg/podfingerprint`,
	)
	inCluster = words(`k8s.io/api k8s.io/apimachinery
		k8s.io/client-go k8s.io/component-helpers k8s.io/klog/v2 k8s.io/kubectl sigs.k8s.io/yaml`)
)

// heavy are the only packages whose code may import k8s.io/kubernetes: everything else builds in
// seconds and can be tested under the race detector at no cost.
var heavy = words(`scheduler/arrange scheduler/candidates scheduler/fwk scheduler/preempt scheduler/profiles/... scheduler/plugin scheduler/server scheduler/steer lab/...
	cmd/tenon-scheduler cmd/tenon-lab test/bench/... test/vm/realnode/driver`)

// light are programs that must not link k8s.io/kubernetes, not even by way of other packages.
var light = words(`cmd/kubectl-tenon cmd/tenon-agent cmd/tenon-console`)

// ballast is what no light program may link, not even by way of modules. A typed client of client-go brings
// the first two: the types of every API group, and models of OpenAPI. Its generic client (gentype) brings
// the third, which brings how the API server merges. The pages of a program's file that it touches are
// memory that a node has not for its pods; with these the agent took a third more.
var ballast = words(`k8s.io/client-go/kubernetes/scheme k8s.io/client-go/discovery k8s.io/client-go/testing`)

// agentBallast is what the agent may not link either: types of groups that it does not read.
var agentBallast = words(`k8s.io/api/resource/v1 k8s.io/api/storage/v1`)

func words(s string) []string { return strings.Fields(s) }

func TestFloors(t *testing.T) {
	modules := goMod(t).modules()
	for _, p := range packages(t) {
		i := slices.IndexFunc(floors, func(f floor) bool { return match(f.pattern, p.path) })
		if i < 0 {
			t.Errorf("package %s has no floor: give it a row in floors", p.path)
			continue
		}
		for _, imp := range p.imports(false) {
			if why := floors[i].refuses(imp, modules); why != "" {
				t.Errorf("package %s imports %s: %s (row %q of floors)", p.path, imp, why, floors[i].pattern)
			}
		}
	}
}

// refuses returns why a package of the floor may not import imp, or "".
func (f floor) refuses(imp string, modules []string) string {
	if own, ok := inside(imp); ok {
		if !slices.ContainsFunc(f.own, func(p string) bool { return match(p, own) }) {
			return "not below its floor"
		}
		return ""
	}
	if standard(imp) {
		if f.std != nil && !slices.Contains(f.std, imp) {
			return "not in the part of the standard library that this floor may use"
		}
		return ""
	}
	if m := moduleOf(imp, modules); !slices.Contains(f.outside, m) {
		return fmt.Sprintf("module %s is not for this floor", m)
	}
	return ""
}

// strangers are tenants of the house that do not know each other: what a pattern names
// reaches no package of the other patterns, not even by way of a third.
var strangers = map[string][]string{
	"core/...":          words(`api/... node/... cluster/... scheduler/... ops/... face/... guests/... lab/...`),
	"api/...":           words(`core/ledger node/... cluster/... scheduler/... ops/... face/... guests/... lab/...`),
	"node/...":          words(`core/ledger cluster/... scheduler/... ops/... face/... guests/... lab/...`),
	"cluster/...":       words(`node/... scheduler/... ops/... face/... guests/... lab/...`),
	"scheduler/...":     words(`node/... ops/... face/... guests/affinity/mover guests/numatopo lab/...`),
	"ops/...":           words(`node/... scheduler/... face/... guests/... lab/...`),
	"face/...":          words(`node/... scheduler/... guests/... lab/...`),
	"guests/...":        words(`cluster/... scheduler/... ops/... face/... lab/...`),
	"scheduler/booking": words(`scheduler/fwk scheduler/plugin guests/...`),
	"scheduler/follow":  words(`scheduler/fwk scheduler/plugin guests/...`),
	"scheduler/report":  words(`scheduler/fwk scheduler/plugin guests/...`),
}

func TestTenantsDoNotKnowEachOther(t *testing.T) {
	imports := map[string][]string{}
	for _, p := range packages(t) {
		for _, imp := range p.imports(false) {
			if own, ok := inside(imp); ok {
				imports[p.path] = append(imports[p.path], own)
			}
		}
	}
	for tenant, others := range strangers {
		for from := range imports {
			if !match(tenant, from) {
				continue
			}
			for _, other := range others {
				direct := map[string]bool{}
				for p := range imports {
					direct[p] = match(other, p)
				}
				if way := reach(from, imports, direct, nil); way != nil {
					t.Errorf("package %s reaches %s: %s", from, other, strings.Join(way, " -> "))
				}
			}
		}
	}
}

func TestKubernetesStaysInItsPlace(t *testing.T) {
	reached := map[string][]string{} // package -> packages of this module that it imports
	direct := map[string]bool{}
	for _, p := range packages(t) {
		may := slices.ContainsFunc(heavy, func(h string) bool { return match(h, p.path) })
		for _, imp := range p.imports(true) {
			if strings.HasPrefix(imp, "k8s.io/kubernetes/") && !may {
				t.Errorf("package %s imports %s: only %s may", p.path, imp, strings.Join(heavy, ", "))
			}
		}
		for _, imp := range p.imports(false) {
			if own, ok := inside(imp); ok {
				reached[p.path] = append(reached[p.path], own)
			}
			direct[p.path] = direct[p.path] || strings.HasPrefix(imp, "k8s.io/kubernetes/")
		}
	}
	for _, program := range light {
		if way := reach(program, reached, direct, nil); way != nil {
			t.Errorf("program %s links k8s.io/kubernetes: %s", program, strings.Join(way, " -> "))
		}
	}
}

func TestLightProgramsHaveNoBallast(t *testing.T) {
	for _, program := range light {
		const format = "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}"
		list := exec.Command("go", "list", "-deps", "-f", format, "./"+program)
		list.Dir = rootFolder
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list -deps ./%s: %v", program, err)
		}
		refused := ballast
		if program == "cmd/tenon-agent" {
			refused = slices.Concat(ballast, agentBallast)
		}
		for line := range strings.Lines(string(out)) {
			w := words(line)
			for _, imp := range w[1:] {
				if slices.Contains(refused, imp) {
					t.Errorf("program %s links %s, which %s imports", program, imp, w[0])
				}
			}
		}
	}
}

// reach returns a way from a package to one that imports k8s.io/kubernetes itself, or nil.
func reach(from string, imports map[string][]string, direct map[string]bool, way []string) []string {
	way = append(slices.Clone(way), from)
	if direct[from] {
		return way
	}
	for _, next := range imports[from] {
		if found := reach(next, imports, direct, way); found != nil {
			return found
		}
	}
	return nil
}

// TestCoreActsOnNothing holds what imports cannot tell: nothing in core starts a goroutine or prints.
func TestCoreActsOnNothing(t *testing.T) {
	for _, p := range packages(t) {
		if !match("core/...", p.path) {
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: core starts a goroutine", p.at(n))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "fmt" && strings.HasPrefix(n.Sel.Name, "Print") {
						t.Errorf("%s: core prints", p.at(n))
					}
				}
				return true
			})
		}
	}
}

// The packages of core use one goroutine, in their tests too, but for two that have locks. go run ./test therefore
// tests only these two under the race detector.
func TestCoreUsesOneGoroutine(t *testing.T) {
	for _, p := range packages(t) {
		if !match("core/...", p.path) || p.path == "core/answers" || p.path == "core/ledger" {
			continue
		}
		for _, imp := range p.imports(true) {
			if match("sync/...", imp) {
				t.Errorf("%s imports %s", p.path, imp)
			}
		}
		for _, f := range p.files {
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: a goroutine is started", p.at(n))
				case *ast.SelectorExpr:
					if n.Sel.Name == "Parallel" || n.Sel.Name == "RunParallel" {
						t.Errorf("%s: a test runs beside others", p.at(n))
					}
				}
				return true
			})
		}
	}
}

// match reports whether a pattern ("a/b", "a/b/...") names a package.
func match(pattern, pkg string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == tree || strings.HasPrefix(pkg, tree+"/")
	}
	return pattern == pkg
}

// inside returns the path of an import within this module, "." for its root, and whether the import is of this module.
func inside(imp string) (string, bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}

// standard reports whether an import is of the standard library: its first element has no dot.
func standard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}
