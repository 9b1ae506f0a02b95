package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/face/cli"
)

// base is the first part of the paths of the API; another version would have another base. openFuyao is the first
// part of the paths that clients of openFuyao use.
const (
	base      = "/api/v1"
	openFuyao = "/rest/scheduling/v1/"
)

// parameter is a parameter of a route. in is "path" or "query", list permits several values, and check returns an
// error for a value that is not valid.
type parameter struct {
	name, in, help string
	list           bool
	check          func(string) error
}

// route is one operation of the API. The OpenAPI description is generated from the same table.
type route struct {
	method, path, id, help string
	parameters             []parameter
	body                   string // media type, or ""
	maxBody                int    // largest size of the body in bytes
	input                  any    // a value of the type of a JSON body; nil for text
	answer                 any    // a value of the type of the answer; nil if the answer is empty
	stream                 bool   // answers with server-sent events
	open                   bool   // needs no sign-in
	do                     func(w http.ResponseWriter, q *request) error
}

// full returns the path from the root.
func (x *route) full() string {
	if strings.HasPrefix(x.path, openFuyao) {
		return x.path
	}
	return base + x.path
}

// request is a request that the guard has accepted.
type request struct {
	*http.Request
	who    *Identity // nil if the route is open
	values url.Values
	body   []byte
}

// table returns all operations.
func (h *Handler) table() []route {
	node := parameter{"node", "query", "Name of a node.", false, checkNode}
	namespace := parameter{"namespace", "query", "Namespace of pods.", false, checkNamespace}
	count := parameter{"count", "query", "Pods of each workload in place of its replicas, or max.", false, checkCount}
	without := parameter{"without", "query", "Node to take away. May be repeated.", true, checkNode}
	scheduler := parameter{"scheduler", "query", "NAMESPACE/NAME of the scheduler's ConfigMap, where there are several.",
		false, checkScheduler}
	inPath := func(name string, check func(string) error) parameter {
		return parameter{name, "path", "Name of the " + name + ".", false, check}
	}
	return []route{
		{method: "GET", path: "/cluster", id: "getCluster", help: "Every node in numbers, by NUMA node.",
			parameters: []parameter{{"label", "query", "Label of nodes to answer. May be repeated.", true, checkLabel}},
			answer:     document.ClusterOverview{}, do: h.cluster},
		{method: "GET", path: "/nodes/{node}", id: "getNode", help: "A node: machine, rules, and who holds what.",
			parameters: []parameter{inPath("node", checkNode)}, answer: document.Node{}, do: h.node},
		{method: "GET", path: "/nodes/{node}/use", id: "getNodeUse",
			help: "CPUs and memory in use by NUMA node and container, with a time line.",
			parameters: []parameter{inPath("node", checkNode), {"pod", "query",
				"NAMESPACE/NAME of a pod whose containers are in every sample, not in the last alone.", false, checkPodName}},
			answer: document.NodeUse{}, do: h.use},
		{method: "GET", path: "/nodes/{node}/affinity", id: "getNodeAffinity",
			help: "What the node's agent measured between pods that share CPUs, and where it put them. No nodes: it " +
				"measured none.", parameters: []parameter{inPath("node", checkNode)}, answer: document.Affinity{}, do: h.affinity},
		{method: "GET", path: "/pods", id: "listPods", help: "Pods at a glance.", parameters: []parameter{namespace, node,
			{"waiting", "query", "true: pods without a node alone.", false, checkBool},
			{"limit", "query", "Pods in one answer, 500 unless given.", false, checkLimit},
			{"continue", "query", "What the answer before said.", false, checkText}}, answer: document.PodList{}, do: h.pods},
		{method: "GET", path: "/pods/{namespace}/{pod}", id: "getPod", help: "Where a pod fits and why, or what it holds.",
			parameters: []parameter{inPath("namespace", checkNamespace), inPath("pod", checkPod)},
			answer:     cli.Explanation{}, do: h.pod},
		{method: "GET", path: "/pods/{namespace}/{pod}/decisions", id: "listDecisions",
			help:       "What schedulers and kubelets decided on a pod, the newest first; from events.",
			parameters: []parameter{inPath("namespace", checkNamespace), inPath("pod", checkPod)},
			answer:     document.PodHistory{}, do: h.decisions},
		{method: "GET", path: "/podgroups/{namespace}/{group}", id: "getPodGroup",
			help:       "What a group of pods needs, and whether those of its pods that wait fit at the same time.",
			parameters: []parameter{inPath("namespace", checkNamespace), inPath("group", checkPod)},
			answer:     cli.PodGroup{}, do: h.podGroup},
		{method: "POST", path: "/simulate", id: "simulate", help: "What would happen to the pods of a manifest.",
			parameters: append(variations(), namespace, count, without,
				parameter{"pending", "query", "true: place the pods that wait, too.", false, checkBool}),
			body: "application/yaml", maxBody: maxManifest, answer: cli.Simulation{}, do: h.simulate},
		{method: "POST", path: "/defrag", id: "defrag", help: "Which pods to move so that others get room. Nothing is moved.",
			parameters: []parameter{namespace, {"count", "query", "Pods of each workload in place of its replicas.", false,
				func(s string) error { return number(s, maxCount) }},
				{"pending", "query", "true: all pods that wait get room.", false, checkBool},
				{"for", "query", "NAMESPACE/NAME of a pod that waits and gets room. May be repeated.", true, checkPodName},
				{"empty", "query", "Node that all its pods leave. May be repeated.", true, checkNode},
				{"align", "query", "NAMESPACE/NAME of a pod that is to lie on as few NUMA nodes as possible. May be repeated.",
					true, checkPodName},
				{"any", "query", "true: as many of the pods as possible get room, by priority.", false, checkBool},
				{"usual", "query", "true: as many pods as possible of the usual shapes fit. No other goal is given.", false,
					checkBool},
				{"from", "query", "Namespace whose pods may move, all unless given. May be repeated.", true, checkNamespace},
				{"most", "query", "How many pods may move, 10 unless given.", false,
					func(s string) error { return number(s, cli.MaxMoves) }}},
			body: "application/yaml", maxBody: maxManifest, answer: cli.Defragmentation{}, do: h.defrag},
		{method: "POST", path: "/check", id: "check", help: "Whether the pods of a manifest can ever run on any node.",
			parameters: []parameter{namespace}, body: "application/yaml", maxBody: maxManifest,
			answer: cli.PodCheck{}, do: h.check},
		{method: "GET", path: "/fitting", id: "getFitting", help: "How many more pods of the usual shapes fit.",
			parameters: []parameter{{"shape", "query", "RESOURCE=AMOUNT[,...] of a pod. May be repeated.", true, checkText}},
			answer:     cli.Capacity{}, do: h.fitting},
		{method: "GET", path: "/doctor", id: "getDiagnosis", help: "What is wrong with the installation, nodes and " +
			"pods, and " +
			"what mends it.", parameters: []parameter{node, {"pod", "query", "NAMESPACE/NAME of a pod.", false, checkPodName}},
			answer: document.Diagnosis{}, do: h.doctor},
		{method: "GET", path: "/scheduling", id: "getScheduling", help: "How schedulers and kubelets are configured.",
			answer: document.SchedulingPolicy{}, do: h.policy},
		{method: "PATCH", path: "/scheduling/arguments", id: "setArguments",
			help:       "Change arguments of the NUMA plugin of a scheduler, such as its strategy.",
			parameters: append([]parameter{scheduler}, changing()...), body: "application/json", maxBody: maxSmall,
			input: document.ArgumentChange{}, answer: document.SchedulerChange{}, do: h.setArguments},
		{method: "POST", path: "/kubelets/plan", id: "planKubelets",
			help: "What a change of kubelets' configuration would do. Nothing is changed.",
			body: "application/json", maxBody: maxSmall, input: document.KubeletChange{},
			answer: document.KubeletPlan{}, do: h.planKubelets},
		{method: "GET", path: "/kubelets/rollout", id: "getRollout", help: "How far the plan is that is carried out, or " +
			"was carried out last.", answer: document.KubeletRollout{}, do: h.getRollout},
		{method: "POST", path: "/kubelets/rollout", id: "beginRollout", help: "Carry out a plan, or go on with your last " +
			"one where the body has none.", parameters: []parameter{{"dryRun", "query",
			"true: check that it can begin, and change nothing.", false, checkBool}},
			body: "application/json", maxBody: maxPlanBody, input: document.KubeletRolloutRequest{},
			answer: document.KubeletRollout{}, do: h.beginRollout},
		{method: "DELETE", path: "/kubelets/rollout", id: "stopRollout", help: "Interrupt the plan that you began.",
			answer: document.KubeletRollout{}, do: h.stopRollout},
		{method: "GET", path: openFuyao + "numaaware", id: "getNUMAAware",
			help:       "Whether the NUMA plugin of a scheduler is on, as clients of openFuyao ask for it.",
			parameters: []parameter{scheduler}, answer: document.NUMAAware{}, do: h.numaAware},
		{method: "PUT", path: openFuyao + "numaaware", id: "setNUMAAware", help: "Turn the NUMA plugin on or off.",
			parameters: append([]parameter{scheduler}, changing()...), body: "application/json", maxBody: maxSmall,
			input: document.PluginStatus{}, answer: document.NUMAAware{}, do: h.setNUMAAware},
		{method: "GET", path: "/changes", id: "followChanges", help: "What changes, at most four times a second.",
			answer: document.ClusterChange{}, stream: true, do: h.changes},
		{method: "GET", path: "/session", id: "getSession", help: "Who is signed in.",
			answer: document.SessionDetails{}, do: h.session},
		{method: "POST", path: "/session", id: "signIn", help: "Sign in by the secret of the address, or by a token.",
			parameters: []parameter{{"namespace", "query", "Namespace whose pods are shown to who may not list all. May be " +
				"repeated.", true, checkNamespace}},
			body: "text/plain", maxBody: maxSecret, answer: document.SessionDetails{}, open: true, do: h.signIn},
		{method: "DELETE", path: "/session", id: "signOut", help: "Sign out.", open: true, do: h.signOut},
		{method: "GET", path: "/openapi.json", id: "getOpenAPI", help: "This description.", answer: map[string]any{},
			open: true, do: h.describeAPI},
	}
}

// changing returns the parameters of requests that change the configuration of a scheduler.
func changing() []parameter {
	return []parameter{
		{"profile", "query", "Profile that is changed; needed where several have arguments for the plugin, of which " +
			"otherwise all are turned on or off.", false, checkPod},
		{"dryRun", "query", "true: check the change, and write nothing.", false, checkBool},
		{"version", "query", "Version that is changed; one that has changed meanwhile is refused.", false, checkText},
	}
}

// variations returns the parameters that change the cluster of a simulation.
func variations() []parameter {
	return []parameter{
		{"add", "query", "NODE[=COUNT]: nodes like an existing one that join; =min is as few as it takes. May be repeated.",
			true, checkAdd},
		{"policy", "query", "Topology manager policy of the selected nodes, in place of their own.", false, checkPolicy},
		{"option", "query", "NAME[=VALUE] of the topology or CPU manager of the selected nodes. May be repeated.", true,
			checkText},
		{"selector", "query", "Label selector of the nodes that policy and option change; all unless given.", false,
			checkSelector},
	}
}

// register serves the routes. For other paths it answers with a problem document, too.
func (h *Handler) register() {
	byPath := map[string][]route{}
	for _, r := range h.routes {
		byPath[r.full()] = append(byPath[r.full()], r)
	}
	for path, all := range byPath {
		h.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { h.dispatch(w, r, all) })
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(http.StatusNotFound, "path", "there is nothing here: "+base+"/openapi.json describes the API").answer(w, r)
	})
}

// dispatch runs the route of the request's method. all are the routes of one path.
func (h *Handler) dispatch(w http.ResponseWriter, r *http.Request, all []route) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	i := slices.IndexFunc(all, func(x route) bool { return x.method == method })
	if i < 0 {
		var allowed []string
		for _, x := range all {
			allowed = append(allowed, x.method)
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		fail(http.StatusMethodNotAllowed, "method", "allowed: "+strings.Join(allowed, ", ")).answer(w, r)
		return
	}
	if err := h.run(w, r, &all[i]); err != nil {
		failureOf(err).answer(w, r)
	}
}

// run identifies the person, checks the request, and answers it.
func (h *Handler) run(w http.ResponseWriter, r *http.Request, x *route) error {
	q := &request{Request: r}
	var err error
	if !x.open {
		if q.who, err = h.config.Identities.Identify(r); err != nil {
			return err
		}
		if !h.requests.accept(q.who.person()) {
			return fail(http.StatusTooManyRequests, "", "too many requests: try again in a second")
		}
	}
	if q.values, err = x.check(r); err != nil {
		return err
	}
	leave, err := h.turn(q, x)
	if err != nil {
		return err
	}
	defer leave()
	if x.body != "" {
		if q.body, err = x.readBody(w, r); err != nil {
			return err
		}
	}
	return x.do(w, q)
}

// turn waits until few other requests of the person are in progress, because their bodies and answers take memory.
// Requests with large bodies wait in a queue of their own. Streams and routes without sign-in do not wait. If turn
// returns no error, the caller must call leave.
func (h *Handler) turn(q *request, x *route) (leave func(), err error) {
	if x.open || x.stream {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(q.Context(), maxAnswer)
	defer cancel()
	if x.maxBody > maxManifest {
		return h.plans.enter(ctx, q.who.person())
	}
	return h.answering.enter(ctx, q.who.person())
}

// check returns the values of a request's parameters. An unknown parameter is an error, because the console would
// otherwise ignore it silently.
func (x *route) check(r *http.Request) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "query", err.Error())
	}
	for name := range values {
		if !slices.ContainsFunc(x.parameters, func(p parameter) bool { return p.name == name && p.in == "query" }) {
			return nil, fail(http.StatusBadRequest, name, "no such parameter")
		}
	}
	for _, p := range x.parameters {
		if p.in == "path" {
			values.Set(p.name, r.PathValue(p.name))
		}
		all := values[p.name]
		if len(all) > 1 && !p.list || len(all) > maxRepeated {
			return nil, fail(http.StatusBadRequest, p.name, "is given too often")
		}
		for _, v := range all {
			if err := p.check(v); err != nil {
				return nil, fail(http.StatusBadRequest, p.name, err.Error())
			}
		}
	}
	return values, nil
}

// bounded runs do, which computes an answer, with a time limit. Few such functions run at the same time, and people
// take turns; see turns.
func (h *Handler) bounded(q *request, do func(ctx context.Context) (any, error)) (any, error) {
	ctx, cancel := context.WithTimeout(q.Context(), maxAnswer)
	defer cancel()
	leave, err := h.compute.enter(ctx, q.who.person())
	if err != nil {
		return nil, err
	}
	defer leave()
	return do(ctx)
}

// Bounds of parameters.
const (
	maxRepeated = 16     // values of one parameter
	maxText     = 256    // bytes of a value
	maxPods     = 5000   // pods in one answer
	fewPods     = 500    // pods in one answer to a request without a limit
	maxCount    = 10_000 // pods of each workload
	maxAdded    = 1000   // nodes that are copies of one node
)

// firstError returns the first of the messages as an error; nil if there are none.
func firstError(bad []string) error {
	if len(bad) > 0 {
		return errors.New(bad[0])
	}
	return nil
}

func checkNode(s string) error      { return firstError(validation.IsDNS1123Subdomain(s)) }
func checkPod(s string) error       { return firstError(validation.IsDNS1123Subdomain(s)) }
func checkNamespace(s string) error { return firstError(validation.IsDNS1123Label(s)) }
func checkLabel(s string) error     { return firstError(validation.IsQualifiedName(s)) }

// checkAdd accepts NODE, NODE=COUNT and NODE=min.
func checkAdd(s string) error {
	name, count, given := strings.Cut(s, "=")
	if err := checkNode(name); err != nil {
		return err
	}
	if !given || count == "min" {
		return nil
	}
	return number(count, maxAdded)
}

func checkPolicy(s string) error {
	if _, ok := place.ParsePolicy(s); !ok {
		return errors.New("want none, best-effort, restricted or single-numa-node")
	}
	return nil
}

func checkSelector(s string) error {
	if err := checkText(s); err != nil {
		return err
	}
	_, err := labels.Parse(s)
	return err
}

func checkPodName(s string) error { return checkScheduler(s) }

func checkScheduler(s string) error {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok {
		return errors.New("want NAMESPACE/NAME")
	}
	return errors.Join(checkNamespace(namespace), checkPod(name))
}

func checkBool(s string) error {
	if s != "true" && s != "false" {
		return errors.New("want true or false")
	}
	return nil
}

func checkText(s string) error {
	if len(s) > maxText {
		return errors.New("is too long")
	}
	return nil
}

func checkLimit(s string) error { return number(s, maxPods) }

func checkCount(s string) error {
	if s == "max" {
		return nil
	}
	return number(s, maxCount)
}

// number returns an error if s is not a number between 1 and the bound most.
func number(s string, most int) error {
	if n, err := strconv.Atoi(s); err != nil || n < 1 || n > most {
		return errors.New("want 1.." + strconv.Itoa(most))
	}
	return nil
}
