package agent

import (
	"encoding/json"
	"fmt"
	"io"
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
)

// api keeps the objects that an agent reads and writes, and serves them as an API server does.
type api struct {
	mu       sync.Mutex
	pods     []v1.Pod
	watchers []chan metav1.WatchEvent
	layouts  map[string]*v1alpha1.NodeLayout
	revision int64
	watching []chan metav1.WatchEvent // of layouts
	requests int
	down     bool // whether every request is refused
	refuse   int  // PATCH requests to refuse
	lose     int  // PATCH requests to do without saying so
	writes   int
	written  chan *v1alpha1.NodeLayout

	zoned      bool // whether the kind NodeResourceTopology is installed
	topologies map[string]json.RawMessage
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
	return &api{layouts: map[string]*v1alpha1.NodeLayout{}, written: make(chan *v1alpha1.NodeLayout, 1000),
		topologies: map[string]json.RawMessage{}, zonesSent: make(chan *v1alpha2.NodeResourceTopology, 1000)}
}

func (a *api) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		answer(w, 200, v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-node"}})
	})
	mux.HandleFunc("GET /api/v1/pods", a.servePods)
	mux.HandleFunc("GET /apis/tenon.sh/v1alpha1/nodelayouts/{name}", a.getLayout)
	mux.HandleFunc("PATCH /apis/tenon.sh/v1alpha1/nodelayouts/{name}", a.applyLayout)
	mux.HandleFunc("GET "+topologyPath, a.getTopology)
	mux.HandleFunc("PATCH "+topologyPath, a.applyTopology)
	mux.HandleFunc("GET /apis/tenon.sh/v1alpha1/nodelayouts", a.serveLayouts)
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
		list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
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

// serveLayouts lists and watches the metadata of the layout that is asked for.
func (a *api) serveLayouts(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name=")
	if q.Get("sendInitialEvents") != "" || !ok || !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		refuse(w, 422, metav1.StatusReasonInvalid)
		return
	}
	a.mu.Lock()
	if q.Get("watch") == "" {
		defer a.mu.Unlock()
		list := metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
			ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(a.revision, 10)}}
		if l := a.layouts[name]; l != nil {
			list.Items = append(list.Items, *partial(l))
		}
		answer(w, 200, list)
		return
	}
	events := make(chan metav1.WatchEvent, 100)
	a.watching = append(a.watching, events)
	a.mu.Unlock()
	stream(w, r, events)
}

func partial(l *v1alpha1.NodeLayout) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: l.ObjectMeta}
}

// tell sends an event of a layout to all watchers; the lock is held.
func (a *api) tell(kind string, l *v1alpha1.NodeLayout) {
	for _, w := range a.watching {
		e := metav1.WatchEvent{Type: kind}
		e.Object.Raw, _ = json.Marshal(partial(l))
		w <- e
	}
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
	a.store(&l)
	a.writes++
	a.written <- &l
	if a.lose > 0 {
		a.lose--
		refuse(w, 504, metav1.StatusReasonTimeout)
		return
	}
	answer(w, 200, l)
}

// store keeps a layout as an API server does; the lock is held.
func (a *api) store(l *v1alpha1.NodeLayout) {
	a.revision++
	before, kind := a.layouts[l.Name], "MODIFIED"
	if before == nil {
		before, kind = &v1alpha1.NodeLayout{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("layout-", a.revision))}}, "ADDED"
	}
	l.UID, l.Generation, l.ResourceVersion = before.UID, before.Generation+1, strconv.FormatInt(a.revision, 10)
	a.layouts[l.Name] = l
	a.tell(kind, l)
}

const topologyPath = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/{name}"

func (a *api) getTopology(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, ok := a.topologies[r.PathValue("name")]
	switch {
	case !a.zoned:
		http.NotFound(w, r) // as an API server answers for a kind that it does not know
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
	a.topologies[o.Name] = body
	a.zonesSent <- &o
	answer(w, 200, o)
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
	a.tellPod(t, "ADDED", p)
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
	a.tellPod(t, "MODIFIED", p)
}

func (a *api) tellPod(t *testing.T, kind string, p v1.Pod) {
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
		gone := *l
		gone.ResourceVersion = strconv.FormatInt(a.revision, 10)
		a.tell("DELETED", &gone)
	}
}

func (a *api) refuseNext(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = n
}

func (a *api) loseNext(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lose = n
}
