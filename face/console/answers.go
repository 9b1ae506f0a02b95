package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/live"
	"github.com/tenon-numa/tenon/face/cli"
)

// content is an answer in the two forms in which it is sent. tag is a digest of plain, for the header ETag.
type content struct {
	media, tag  string
	plain, gzip []byte // gzip is nil for short answers
}

const fewBytes = 1 << 10 // an answer of fewer bytes is not worth compressing

// newContent returns an answer. It compresses answers of at least fewBytes.
func newContent(media string, plain []byte) (*content, error) {
	sum := sha256.Sum256(plain)
	c := &content{media: media, plain: plain, tag: base64.RawURLEncoding.EncodeToString(sum[:16])}
	if len(plain) < fewBytes {
		return c, nil
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed+2)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	c.gzip = out.Bytes()
	return c, nil
}

// write sends the content, or status 304 if the client has it already.
func (c *content) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", c.media)
	h.Set("Vary", "Accept-Encoding, Cookie, Authorization")
	body, tag := c.plain, `"`+c.tag+`"`
	if c.gzip != nil && accepts(r, "gzip") {
		body, tag = c.gzip, `"`+c.tag+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	if slices.Contains(strings.Split(strings.ReplaceAll(r.Header.Get("If-None-Match"), " ", ""), ","), tag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// accepts reports whether a client accepts an encoding. A weight of zero refuses it.
func accepts(r *http.Request, encoding string) bool {
	for one := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(one, " ", ""), ";")
		if name == encoding {
			return weight != "q=0" && weight != "q=0.0"
		}
	}
	return false
}

// answer sends a document as JSON.
func answer(w http.ResponseWriter, r *http.Request, doc any) error {
	data, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	c, err := newContent("application/json", data)
	if err != nil {
		return fmt.Errorf("compress answer: %w", err)
	}
	c.write(w, r)
	return nil
}

// overviews stores the last overview of an identity, so that several pages of one person need one computation.
type overviews struct {
	mu         sync.Mutex
	key        string
	last       *content
	alignments map[string]alignment // by name of the node
}

// cluster answers with the overview of all nodes. The parameter label names the labels of nodes that it contains.
func (h *Handler) cluster(w http.ResponseWriter, q *request) error {
	state, labels := q.who.View.State(), slices.Sorted(slices.Values(q.values["label"]))
	key := fmt.Sprint(state.Version, state.Ready, labels)
	o := &q.who.overviews
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.key != key {
		o.forget(state)
		doc := document.ClusterOverview{Kind: "ClusterOverview", Version: state.Version, Ready: state.Ready,
			Nodes: document.Each(state.Nodes, func(n live.Node) document.NodeOverview {
				return overviewOf(n, q.who.misaligned(n), labels)
			}),
			Pods: state.Pods, Waiting: state.Waiting, Limits: append([]document.Limit{}, state.Limits...)}
		if state.Seen != nil {
			doc.Namespaces = state.Seen.Namespaces
		}
		data, err := json.Marshal(doc)
		if err != nil {
			return fmt.Errorf("encode overview: %w", err)
		}
		if o.last, err = newContent("application/json", data); err != nil {
			return fmt.Errorf("compress overview: %w", err)
		}
		o.key = key
	}
	o.last.write(w, q.Request)
	return nil
}

// overviewOf returns the overview of a node. misaligned counts its misaligned pods, and labels are the keys of the
// labels that the overview contains.
func overviewOf(n live.Node, misaligned int, labels []string) document.NodeOverview {
	out := document.NodeOverviewOf(n.Name, n.State)
	out.Problem, out.Misaligned = n.Problem, misaligned
	if n.NotReady {
		out.Flags = append(out.Flags, "notReady")
	}
	if n.Cordoned {
		out.Flags = append(out.Flags, "cordoned")
	}
	for _, l := range labels {
		if value, ok := n.Labels[l]; ok {
			if out.Labels == nil {
				out.Labels = map[string]string{}
			}
			out.Labels[l] = value
		}
	}
	return out
}

func (h *Handler) node(w http.ResponseWriter, q *request) error {
	name := q.values.Get("node")
	var claims *document.NodeClaims
	if q.who.Claims != nil { // first, because it waits until the view has all that it follows
		all, err := q.who.Claims(q.Context(), name)
		if err != nil {
			return err
		}
		claims = all.Shown(name)
	}
	n, ok := q.who.View.State().Node(name)
	if !ok {
		return fail(http.StatusNotFound, "node", "there is no node "+name+", or you may not read it")
	}
	doc := document.NodeOf(name, n.State)
	doc.Problem, doc.Warnings = n.Problem, n.Warnings
	if n.State != nil && q.who.Misaligned != nil {
		misaligned, _ := q.who.Misaligned(n.State)
		for i := range doc.Holdings {
			doc.Holdings[i].Misaligned = misaligned[doc.Holdings[i].UID]
		}
	}
	if q.who.Kept != nil {
		kept, unread, err := q.who.Kept(q.Context(), name)
		if err != nil {
			return err
		}
		if doc.Kept = kept; unread != "" {
			doc.Warnings = append(slices.Clone(doc.Warnings), "room that is kept for pods was not read: "+unread)
		}
	}
	doc.Claims = claims
	return answer(w, q.Request, doc)
}

// pods answers with the pods that the parameters select, in pages: continue is the last pod of the previous page.
func (h *Handler) pods(w http.ResponseWriter, q *request) error {
	namespace, node, waiting := q.values.Get("namespace"), q.values.Get("node"), q.values.Get("waiting") == "true"
	limit, err := strconv.Atoi(q.values.Get("limit"))
	if err != nil {
		limit = fewPods
	}
	state := q.who.View.State()
	all := q.who.View.Pods(func(p live.Pod) bool {
		return (namespace == "" || p.ID.Namespace == namespace) && (node == "" || p.Node == node) &&
			(!waiting || p.Node == "" && !p.Ended())
	})
	doc := document.PodList{Kind: "PodList", Version: state.Version, Total: len(all), Pods: []document.PodSummary{},
		Limits: append([]document.Limit{}, state.Limits...)}
	// Pods are in ascending order of namespace and name. NUL in place of the slash gives the same order for texts: it
	// puts a namespace before longer ones that begin with the same letters.
	after := q.values.Get("continue")
	for _, p := range all {
		if after != "" && strings.ReplaceAll(p.ID.String(), "/", "\x00") <= strings.ReplaceAll(after, "/", "\x00") {
			continue
		}
		if len(doc.Pods) == limit {
			last := doc.Pods[limit-1]
			doc.Continue = last.Namespace + "/" + last.Name
			break
		}
		doc.Pods = append(doc.Pods, summaryOf(state, p))
	}
	doc.Groups = groupsOf(q.who.View, doc.Pods)
	return answer(w, q.Request, doc)
}

// groupsOf returns the groups of some pods. All pods of a group count, also those that are not among the pods.
func groupsOf(v View, pods []document.PodSummary) (out []document.PodGroupSummary) {
	at := map[[2]string]int{}
	for _, p := range pods {
		key := [2]string{p.Namespace, p.Group}
		if _, known := at[key]; p.Group != "" && !known {
			at[key] = len(out)
			out = append(out, document.PodGroupSummary{Namespace: p.Namespace, Name: p.Group})
		}
	}
	if len(out) == 0 {
		return nil
	}
	for _, p := range v.Pods(func(p live.Pod) bool { return p.Group != "" && !p.Ended() }) {
		if i, of := at[[2]string{p.ID.Namespace, p.Group}]; of {
			out[i].Pods++
			if p.Node != "" {
				out[i].Placed++
			}
		}
	}
	return out
}

// podGroup answers with what a group of pods needs, and whether its waiting pods fit at the same time.
func (h *Handler) podGroup(w http.ResponseWriter, q *request) error {
	doc, err := h.bounded(q, func(ctx context.Context) (any, error) {
		return cli.ExplainGroup(ctx, q.who.Cluster, q.values.Get("namespace"), q.values.Get("group"))
	})
	if err != nil {
		return err
	}
	return answer(w, q.Request, doc)
}

// summaryOf returns the summary of a pod, with its NUMA nodes if its node has an entry for it.
func summaryOf(s live.State, p live.Pod) document.PodSummary {
	out := document.PodSummary{Pod: document.PodOf(p.ID), Phase: string(p.Phase), Reason: p.Reason, Node: p.Node,
		Scheduler: p.Scheduler, Created: p.Created, Group: p.Group}
	if n, ok := s.Node(p.Node); ok && n.State != nil {
		if e, ok := n.State.Entry(p.ID.UID); ok {
			held := document.HolderOf(n.State.Machine, e)
			out.NUMAs, out.Source = held.NUMAs, held.Source
		}
	}
	return out
}

func (h *Handler) pod(w http.ResponseWriter, q *request) error {
	doc, err := h.bounded(q, func(ctx context.Context) (any, error) {
		return cli.Explain(ctx, q.who.Cluster, q.values.Get("namespace"), q.values.Get("pod"))
	})
	if err != nil {
		return err
	}
	return answer(w, q.Request, doc)
}

// asRequest returns the values of a request as a request to package cli. Count is -1 for "max", and 0 if the request
// has none.
func (q *request) asRequest() cli.Request {
	out := cli.Request{Manifest: q.body, Namespace: "default", Without: q.values["without"],
		Pending: q.values.Get("pending") == "true", Add: q.values["add"], Policy: q.values.Get("policy"),
		Options: q.values["option"], Selector: q.values.Get("selector")}
	if ns := q.values.Get("namespace"); ns != "" {
		out.Namespace = ns
	}
	switch count := q.values.Get("count"); count {
	case "":
	case "max":
		out.Count = -1
	default:
		out.Count, _ = strconv.Atoi(count)
	}
	return out
}

// simulation returns the simulation that a request asks for. For a request that the command simulate would refuse,
// the error names the parameter.
func (q *request) simulation() (cli.Request, error) {
	asked := q.asRequest()
	refused := func(field, detail string) (cli.Request, error) {
		return asked, fail(http.StatusUnprocessableEntity, field, detail)
	}
	alters := asked.Policy != "" || len(asked.Options) > 0
	switch {
	case len(asked.Manifest) == 0 && len(asked.Without) == 0 && !asked.Pending && !alters:
		return refused("body", "is empty: send a manifest, or ask for without, pending, policy or option")
	case asked.Count != 0 && len(asked.Manifest) == 0:
		return refused("count", "needs a manifest in the body")
	case asked.Count < 0 && (asked.Pending || len(asked.Without) > 0 || alters):
		return refused("count", "max does not go with without, pending, policy or option")
	case asked.Selector != "" && !alters:
		return refused("selector", "needs policy or option")
	}
	state := q.who.View.State()
	for field, names := range map[string][]string{"without": asked.Without, "add": asked.Add} {
		for _, name := range names {
			name, _, _ = strings.Cut(name, "=")
			if _, ok := state.Node(name); !ok {
				return refused(field, "there is no node "+name+", or you may not read it")
			}
		}
	}
	return asked, nil
}

func (h *Handler) simulate(w http.ResponseWriter, q *request) error {
	asked, err := q.simulation()
	if err != nil {
		return err
	}
	doc, err := h.bounded(q, func(ctx context.Context) (any, error) { return cli.Simulate(ctx, q.who.Stages, asked) })
	if err != nil {
		return err
	}
	return answer(w, q.Request, doc)
}

// moves returns which pods a request wants to get room.
func (q *request) moves() (cli.Moves, error) {
	out := cli.Moves{Request: q.asRequest(), For: q.values["for"], Empty: q.values["empty"], Align: q.values["align"],
		From: q.values["from"], Any: q.values.Get("any") == "true", Usual: q.values.Get("usual") == "true"}
	out.Most, _ = strconv.Atoi(q.values.Get("most"))
	refused := func(field, detail string) (cli.Moves, error) {
		return out, fail(http.StatusUnprocessableEntity, field, detail)
	}
	goal := len(out.Manifest)+len(out.For)+len(out.Empty)+len(out.Align) > 0 || out.Pending
	switch {
	case !goal && !out.Usual:
		return refused("body", "is empty: send a manifest, or ask for for, pending, empty, align or usual")
	case out.Usual && (goal || out.Any):
		return refused("usual", "goes with no other goal")
	case out.Count != 0 && len(out.Manifest) == 0:
		return refused("count", "needs a manifest in the body")
	}
	state := q.who.View.State()
	for _, name := range out.Empty {
		if _, ok := state.Node(name); !ok {
			return refused("empty", "there is no node "+name+", or you may not read it")
		}
	}
	for _, name := range out.For {
		namespace, pod, _ := strings.Cut(name, "/")
		if len(q.who.View.Pods(func(p live.Pod) bool {
			return p.ID.Namespace == namespace && p.ID.Name == pod && p.Node == "" && !p.Ended()
		})) == 0 {
			return refused("for", "no pod "+name+" waits for a node, or you may not read it")
		}
	}
	for _, name := range out.Align {
		namespace, pod, _ := strings.Cut(name, "/")
		if len(q.who.View.Pods(func(p live.Pod) bool {
			return p.ID.Namespace == namespace && p.ID.Name == pod && p.Node != "" && !p.Ended()
		})) == 0 {
			return refused("align", "no pod "+name+" is on a node, or you may not read it")
		}
	}
	return out, nil
}

func (h *Handler) defrag(w http.ResponseWriter, q *request) error {
	asked, err := q.moves()
	if err != nil {
		return err
	}
	doc, err := h.bounded(q, func(ctx context.Context) (any, error) { return cli.Defrag(ctx, q.who.Stages, asked) })
	if err != nil {
		return err
	}
	return answer(w, q.Request, doc)
}

func (h *Handler) decisions(w http.ResponseWriter, q *request) error {
	ctx, cancel := context.WithTimeout(q.Context(), maxAnswer)
	defer cancel()
	doc, err := q.who.History(ctx, q.values.Get("namespace"), q.values.Get("pod"))
	if err != nil {
		return err
	}
	return answer(w, q.Request, doc)
}

func (h *Handler) check(w http.ResponseWriter, q *request) error {
	doc, err := h.bounded(q, func(ctx context.Context) (any, error) {
		return cli.Check(ctx, q.who.Stages, q.asRequest())
	})
	if err != nil {
		return err
	}
	return answer(w, q.Request, doc)
}

// fitting answers with the number of further pods that fit. If the request has shapes, every error is answered as an
// error of the parameter shape.
func (h *Handler) fitting(w http.ResponseWriter, q *request) error {
	doc, err := h.bounded(q, func(ctx context.Context) (any, error) {
		return cli.Fitting(ctx, q.who.Stages, q.values["shape"])
	})
	if err != nil && len(q.values["shape"]) > 0 {
		return fail(http.StatusBadRequest, "shape", err.Error())
	}
	if err != nil {
		return err
	}
	return answer(w, q.Request, doc)
}

func (h *Handler) session(w http.ResponseWriter, q *request) error {
	return answer(w, q.Request, document.SessionDetails{Name: q.who.Name, Version: h.config.Version})
}

// signIn begins a session and sets its cookie. The check of the credential may have to wait; see checks.
func (h *Handler) signIn(w http.ResponseWriter, q *request) error {
	var cookie *http.Cookie
	who, err := h.checks.do(q.Context(), q.RemoteAddr, func() (who *Identity, err error) {
		who, cookie, err = h.config.Identities.SignIn(q.Context(),
			Credential{Secret: strings.TrimSpace(string(q.body)), Namespaces: q.values["namespace"]})
		return who, err
	})
	if err != nil {
		return err
	}
	http.SetCookie(w, cookie)
	return answer(w, q.Request, document.SessionDetails{Name: who.Name, Version: h.config.Version})
}

func (h *Handler) signOut(w http.ResponseWriter, q *request) error {
	http.SetCookie(w, h.config.Identities.SignOut(q.Request))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) describeAPI(w http.ResponseWriter, q *request) error {
	c, err := newContent("application/json", h.openAPI)
	if err != nil {
		return err
	}
	c.write(w, q.Request)
	return nil
}
