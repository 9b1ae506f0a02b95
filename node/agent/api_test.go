package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
)

// api keeps the objects that an agent reads and writes, and serves them as an API server does.
type api struct {
	mu       sync.Mutex
	pods     []v1.Pod
	watchers []chan metav1.WatchEvent
	layouts  map[string]*v1alpha1.NodeLayout
	revision int64
	watching map[string][]chan metav1.WatchEvent // of metadata, by the plural name of the kind
	blinded  bool                                // whether watches of metadata are forbidden
	mute     bool                                // whether watches of metadata send nothing
	requests int
	read     map[string]int // GET requests of one object that a cache does not answer, by kind
	node     v1.Node        // the same for each name
	down     bool           // whether every request is refused
	refuse   int            // PATCH requests to refuse
	lose     int            // PATCH requests to execute without an answer
	hold     bool           // the next layout is delayed; held has it then
	held     *v1alpha1.NodeLayout
	writes   int // of layouts
	sent     int // bytes of layouts and bases
	written  chan *v1alpha1.NodeLayout

	forbidLayouts bool   // whether writes of layouts are forbidden
	blindedKind   string // the kind whose metadata may not be watched
	based         bool   // whether the kind LayoutBase is installed
	forbidBase    bool   // whether reading a LayoutBase is forbidden
	bases         map[string]*v1alpha1.LayoutBase

	zoned      bool // whether the kind NodeResourceTopology is installed
	topologies map[string]*v1alpha2.NodeResourceTopology
	zonesSent  chan *v1alpha2.NodeResourceTopology
}

func newAPI(t *testing.T) (*api, *rest.Config) {
	t.Helper()
	a := emptyAPI()
	server := httptest.NewServer(a.handler())
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return a, &rest.Config{Host: server.URL}
}

func emptyAPI() *api {
	return &api{layouts: map[string]*v1alpha1.NodeLayout{}, based: true, bases: map[string]*v1alpha1.LayoutBase{},
		written:    make(chan *v1alpha1.NodeLayout, 1000),
		topologies: map[string]*v1alpha2.NodeResourceTopology{}, zonesSent: make(chan *v1alpha2.NodeResourceTopology, 1000),
		watching: map[string][]chan metav1.WatchEvent{}, read: map[string]int{},
		node: v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{UID: "uid-of-node"},
			Status:     v1.NodeStatus{NodeInfo: v1.NodeSystemInfo{KubeletVersion: "v" + place.DefaultRelease.String() + ".3"}}}}
}

func (a *api) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes/{name}", a.getNode)
	mux.HandleFunc("GET /api/v1/nodes", a.serveMeta("nodes"))
	mux.HandleFunc("GET /api/v1/pods", a.servePods)
	mux.HandleFunc("GET /apis/tenon.sh/v1alpha1/nodelayouts/{name}", a.getLayout)
	mux.HandleFunc("PATCH /apis/tenon.sh/v1alpha1/nodelayouts/{name}", a.applyLayout)
	mux.HandleFunc("GET /apis/tenon.sh/v1alpha1/layoutbases/{name}", a.getBase)
	mux.HandleFunc("PATCH /apis/tenon.sh/v1alpha1/layoutbases/{name}", a.applyBase)
	mux.HandleFunc("GET /apis/tenon.sh/v1alpha1/layoutbases", a.serveMeta("layoutbases"))
	mux.HandleFunc("GET "+topologyPath, a.getTopology)
	mux.HandleFunc("PATCH "+topologyPath, a.applyTopology)
	mux.HandleFunc("GET /apis/tenon.sh/v1alpha1/nodelayouts", a.serveMeta("nodelayouts"))
	mux.HandleFunc("GET /apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies", a.serveMeta("noderesourcetopologies"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.requests++
		down := a.down
		a.mu.Unlock()
		if down {
			refuse(w, 503, metav1.StatusReasonServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, code int, obj any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(obj)
}

func refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	answer(w, int(code), metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: metav1.StatusFailure, Reason: reason, Code: code, Message: string(reason)})
}

func (a *api) servePods(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("sendInitialEvents") != "" {
		refuse(w, 422, metav1.StatusReasonInvalid)
		return
	}
	node, ok := strings.CutPrefix(q.Get("fieldSelector"), "spec.nodeName=")
	if !ok {
		refuse(w, 400, metav1.StatusReasonBadRequest)
		return
	}
	if q.Get("watch") == "" {
		a.mu.Lock()
		defer a.mu.Unlock()
		list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		for _, p := range a.pods {
			if p.Spec.NodeName == node {
				list.Items = append(list.Items, p)
			}
		}
		answer(w, 200, list)
		return
	}
	events := make(chan metav1.WatchEvent, 100)
	a.mu.Lock()
	a.watchers = append(a.watchers, events)
	a.mu.Unlock()
	stream(w, r, events)
}

// serveMeta lists and watches the metadata of the requested object of a kind.
func (a *api) serveMeta(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		name, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name=")
		whole := kind == "nodes"
		partly := strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
		if q.Get("sendInitialEvents") != "" || !ok || whole == partly {
			refuse(w, 422, metav1.StatusReasonInvalid)
			return
		}
		a.mu.Lock()
		if a.blinded || a.blindedKind == kind {
			a.mu.Unlock()
			refuse(w, 403, metav1.StatusReasonForbidden)
			return
		}
		if q.Get("watch") == "" {
			defer a.mu.Unlock()
			if whole {
				answer(w, 200, v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
					ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(a.revision, 10)},
					Items:    []v1.Node{a.nodeNamed(name)}})
				return
			}
			list := metav1.PartialObjectMetadataList{
				TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
				ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(a.revision, 10)}}
			if m := a.meta(kind, name); m != nil {
				list.Items = append(list.Items, *partial(*m))
			}
			answer(w, 200, list)
			return
		}
		// Changes from before the watch are not sent: the client has to list.
		if since := q.Get("resourceVersion"); since != strconv.FormatInt(a.revision, 10) && !a.mute {
			a.mu.Unlock()
			refuse(w, 410, metav1.StatusReasonExpired)
			return
		}
		events := make(chan metav1.WatchEvent, 100)
		a.watching[kind] = append(a.watching[kind], events)
		a.mu.Unlock()
		stream(w, r, events)
	}
}

// meta is the metadata of an object, nil where there is none; the lock is held.
func (a *api) meta(kind, name string) *metav1.ObjectMeta {
	if l := a.layouts[name]; kind == "nodelayouts" && l != nil {
		return &l.ObjectMeta
	}
	if b := a.bases[name]; kind == "layoutbases" && b != nil {
		return &b.ObjectMeta
	}
	if o := a.topologies[name]; kind == "noderesourcetopologies" && o != nil {
		return &o.ObjectMeta
	}
	return nil
}

func partial(m metav1.ObjectMeta) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: m}
}

// notify sends an event of an object to all watchers of its kind; the lock is held.
func (a *api) notify(kind, event string, m metav1.ObjectMeta) { a.send(kind, event, partial(m)) }

// send is notify for an object of any form.
func (a *api) send(kind, event string, o any) {
	if a.mute {
		return
	}
	for _, w := range a.watching[kind] {
		e := metav1.WatchEvent{Type: event}
		e.Object.Raw, _ = json.Marshal(o)
		w <- e
	}
}

// nodeNamed returns the Node with a name; the lock is held.
func (a *api) nodeNamed(name string) v1.Node {
	n := a.node
	n.Name, n.ResourceVersion = name, strconv.FormatInt(a.revision, 10)
	return n
}

// count counts a request for one object that etcd has to answer; the lock is held.
func (a *api) count(kind string, r *http.Request) {
	if r.URL.Query().Get("resourceVersion") != "0" {
		a.read[kind]++
	}
}

func (a *api) getNode(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count("nodes", r)
	answer(w, 200, a.nodeNamed(r.PathValue("name")))
}

// changeNode changes the Node of every name.
func (a *api) changeNode(name string, change func(*v1.Node)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revision++
	change(&a.node)
	a.send("nodes", "MODIFIED", a.nodeNamed(name))
}

func stream(w http.ResponseWriter, r *http.Request, events <-chan metav1.WatchEvent) {
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			json.NewEncoder(w).Encode(e)
			w.(http.Flusher).Flush()
		}
	}
}

func (a *api) getLayout(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count("nodelayouts", r)
	l, ok := a.layouts[r.PathValue("name")]
	if !ok {
		refuse(w, 404, metav1.StatusReasonNotFound)
		return
	}
	answer(w, 200, l)
}

func (a *api) applyLayout(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	q := r.URL.Query()
	if err != nil || r.Header.Get("Content-Type") != "application/apply-patch+yaml" ||
		q.Get("fieldManager") != "tenon-agent" || q.Get("force") != "true" || strings.Contains(string(body), `"status"`) {
		refuse(w, 400, metav1.StatusReasonBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent += len(body)
	if a.forbidLayouts {
		refuse(w, 403, metav1.StatusReasonForbidden)
		return
	}
	if a.refuse > 0 {
		a.refuse--
		refuse(w, 500, metav1.StatusReasonInternalError)
		return
	}
	var l v1alpha1.NodeLayout
	if err := json.Unmarshal(body, &l); err != nil {
		refuse(w, 400, metav1.StatusReasonBadRequest)
		return
	}
	if a.hold {
		a.hold, a.held = false, &l
		refuse(w, 504, metav1.StatusReasonTimeout)
		return
	}
	a.store(&l)
	a.writes++
	a.written <- a.whole(l.Name)
	if a.lose > 0 {
		a.lose--
		refuse(w, 504, metav1.StatusReasonTimeout)
		return
	}
	answer(w, 200, l)
}

// whole is what a reader has of a layout with its base, nil where there is no layout; the lock is held.
func (a *api) whole(name string) *v1alpha1.NodeLayout {
	l := a.layouts[name]
	if l == nil {
		return nil
	}
	if out, err := l.On(a.bases[name]); err == nil {
		return out
	}
	return &v1alpha1.NodeLayout{ObjectMeta: l.ObjectMeta, Sequence: l.Sequence, Agent: l.Agent, Malformed: "no base"}
}

// stamp sets the metadata that an API server sets in a stored object, calls keep, and notifies the watchers; the lock
// is held.
func (a *api) stamp(kind string, m *metav1.ObjectMeta, keep func()) {
	a.revision++
	event, before := "MODIFIED", a.meta(kind, m.Name)
	if before == nil {
		event, before = "ADDED", &metav1.ObjectMeta{UID: types.UID(fmt.Sprint(kind, "-", a.revision))}
	}
	m.UID, m.Generation, m.ResourceVersion = before.UID, before.Generation+1, strconv.FormatInt(a.revision, 10)
	keep()
	a.notify(kind, event, *m)
}

// store keeps a layout as an API server does; the lock is held.
func (a *api) store(l *v1alpha1.NodeLayout) {
	a.stamp("nodelayouts", &l.ObjectMeta, func() { a.layouts[l.Name] = l })
}

func (a *api) getBase(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count("layoutbases", r)
	b := a.bases[r.PathValue("name")]
	switch {
	case !a.based:
		http.NotFound(w, r)
	case a.forbidBase:
		refuse(w, 403, metav1.StatusReasonForbidden)
	case b == nil:
		refuse(w, 404, metav1.StatusReasonNotFound)
	default:
		answer(w, 200, b)
	}
}

func (a *api) applyBase(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var b v1alpha1.LayoutBase
	if err == nil {
		err = json.Unmarshal(body, &b)
	}
	if err != nil || r.URL.Query().Get("fieldManager") != "tenon-agent" {
		refuse(w, 400, metav1.StatusReasonBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.based:
		http.NotFound(w, r)
		return
	case a.refuse > 0:
		a.refuse--
		refuse(w, 500, metav1.StatusReasonInternalError)
		return
	}
	a.sent += len(body)
	a.storeBase(&b)
	answer(w, 200, b)
}

// storeBase keeps a base as an API server does; the lock is held.
func (a *api) storeBase(b *v1alpha1.LayoutBase) {
	a.stamp("layoutbases", &b.ObjectMeta, func() { a.bases[b.Name] = b })
}

const topologyPath = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/{name}"

func (a *api) getTopology(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count("noderesourcetopologies", r)
	o, ok := a.topologies[r.PathValue("name")]
	switch {
	case !a.zoned:
		http.NotFound(w, r) // as an API server answers for a kind that it does not serve
	case !ok:
		refuse(w, 404, metav1.StatusReasonNotFound)
	default:
		answer(w, 200, o)
	}
}

func (a *api) applyTopology(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var o v1alpha2.NodeResourceTopology
	if err == nil {
		err = json.Unmarshal(body, &o)
	}
	if err != nil || r.URL.Query().Get("fieldManager") != "tenon-agent" {
		refuse(w, 400, metav1.StatusReasonBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.zoned {
		http.NotFound(w, r)
		return
	}
	a.storeTopology(&o)
	a.zonesSent <- &o
	answer(w, 200, o)
}

// storeTopology keeps a NodeResourceTopology as an API server does; the lock is held.
func (a *api) storeTopology(o *v1alpha2.NodeResourceTopology) {
	a.stamp("noderesourcetopologies", &o.ObjectMeta, func() { a.topologies[o.Name] = o })
}

// relabel changes a layout's metadata, which its generation does not count.
func (a *api) relabel(name, key, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revision++
	l := *a.layouts[name]
	l.Labels = maps.Clone(l.Labels)
	l.Labels[key], l.ResourceVersion = value, strconv.FormatInt(a.revision, 10)
	a.layouts[name] = &l
	a.notify("nodelayouts", "MODIFIED", l.ObjectMeta)
}

// set changes what the server does.
func (a *api) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// install makes the server know the kind NodeResourceTopology.
func (a *api) install() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.zoned = true
}

func (a *api) addPod(t *testing.T, p v1.Pod) {
	t.Helper()
	a.mu.Lock()
	a.pods = append(a.pods, p)
	a.mu.Unlock()
	a.notifyPod(t, "ADDED", p)
}

func (a *api) changePod(t *testing.T, p v1.Pod) {
	t.Helper()
	a.mu.Lock()
	for i := range a.pods {
		if a.pods[i].UID == p.UID {
			a.pods[i] = p
		}
	}
	a.mu.Unlock()
	a.notifyPod(t, "MODIFIED", p)
}

func (a *api) notifyPod(t *testing.T, kind string, p v1.Pod) {
	t.Helper()
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.ResourceVersion = "2"
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.watchers {
		e := metav1.WatchEvent{Type: kind}
		e.Object.Raw = raw
		w <- e
	}
}

func (a *api) deleteLayout(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.layouts[name]; l != nil {
		delete(a.layouts, name)
		a.revision++
		gone := l.ObjectMeta
		gone.ResourceVersion = strconv.FormatInt(a.revision, 10)
		a.notify("nodelayouts", "DELETED", gone)
	}
}

func (a *api) refuseNext(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = n
}

// holdNext delays the next write of a layout, and answers it with an error.
func (a *api) holdNext() { a.set(func() { a.hold = true }) }

func (a *api) loseNext(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lose = n
}
