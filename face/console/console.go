// Package console is a page and an HTTP API that show one cluster to a signed-in person: nodes by NUMA node, the
// holdings of pods, where pods fit and why not, and simulations.
//
// Invariant: an answer has only what the identity of the request may read. Identities share only the program and the
// progress of a change of kubelets. The answers are the documents of kubectl tenon, made by the same functions. The
// handler changes a cluster only where the person asks for it, with the rights of the person. It refuses requests to
// another host, from another site, without a session or beyond bounds, and names that Kubernetes does not allow. Each
// refusal is a problem document (RFC 9457) that names the field.
//
// The console reads a cluster through [Identity], which the caller connects.
package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/live"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/face/cli"
)

// View is the part of a cluster that an identity may read, in memory. Its methods may be called from any goroutine.
type View interface {
	// State returns the nodes as they are now.
	State() live.State
	// Pods returns the pods that accept returns true for, in ascending order of namespace and name.
	Pods(accept func(live.Pod) bool) []live.Pod
	// Follow returns a follower of the changes from now on.
	Follow() live.Follower
}

// Schedulers reads and changes the configuration of schedulers, with the rights of an identity. Errors are the API
// server's.
type Schedulers interface {
	// List returns the schedulers in ascending order of ID, and the objects that the identity may not read.
	List(ctx context.Context) ([]document.Scheduler, []document.Limit, error)
	// Get returns one scheduler; id may be empty where there is only one.
	Get(ctx context.Context, id string) (document.Scheduler, error)
	// Set turns the NUMA plugin of a scheduler on or off, or changes its arguments.
	Set(ctx context.Context, change document.PluginChange) (document.NUMAAware, error)
}

// Identity is a person or program that is signed in, and the functions that read what it may read.
type Identity struct {
	// Name is for display.
	Name string
	View View
	// Cluster and Stages are what commands read; see package cli. Stages has only Cluster, Vary and Slots.
	Cluster cli.Cluster
	Stages  cli.Stages
	// Misaligned returns the UIDs of a node's misaligned pods. complete is false if pods of the node could not be read,
	// so that the answer may change without a change of the node. The function is nil if pods are not judged.
	Misaligned func(n *state.Node) (uids map[string]bool, complete bool)
	// Claims returns the devices of a node from claims (DRA), and who holds them; nil if they are not read.
	Claims func(ctx context.Context, node string) (*document.Claims, error)
	// Kept returns the room that a node keeps for pods that have not come yet, or why that could not be read; nil if it is
	// not read.
	Kept func(ctx context.Context, node string) (kept []document.Kept, unread string, err error)
	// History returns the events of schedulers and kubelets about a pod.
	History    func(ctx context.Context, namespace, pod string) (document.PodHistory, error)
	Schedulers Schedulers
	// Doctor examines the cluster; nil if doctor is not offered.
	Doctor func(ctx context.Context, o cli.DoctorOptions) (document.Diagnosis, error)
	// Kubelets changes kubelets' configuration; nil if changes are not offered.
	Kubelets Kubelets
	// Use returns what the pods of all people use on a node; nil if nothing measures it. All samples except the last
	// one may lack containers of other pods than pod ("namespace/name").
	Use func(ctx context.Context, node, pod string) document.NodeUse
	// Affinity returns what a node's agent measured between pods of all people. The result has no nodes if the agent
	// has measured nothing. Errors are the API server's. The function is nil if the console reads no NodeAffinity.
	Affinity func(ctx context.Context, node string) (document.Affinity, error)
	// Valid reports whether the API server still accepts the identity; nil means always.
	Valid func() bool
	// Close ends the view; nil if there is nothing to end.
	Close func()

	overviews overviews
}

// person returns the name under which the identity's requests are counted.
func (i *Identity) person() string { return person(i.Name) }

// Identities find the identity of a request, by a session or a credential.
type Identities interface {
	// Identify returns the identity of the request. The error wraps [ErrSignIn] if the request has no valid session;
	// other errors describe why the request was refused or not examined in time.
	Identify(r *http.Request) (*Identity, error)
	// SignIn exchanges a credential for a session and returns its cookie.
	SignIn(ctx context.Context, c Credential) (*Identity, *http.Cookie, error)
	// SignOut ends the session of a request, and returns a cookie that deletes the session's cookie.
	SignOut(r *http.Request) *http.Cookie
}

// Config is what a main program passes to [New].
type Config struct {
	Version    string
	Identities Identities
	// Hosts are the accepted values of the header Host. A value without a port accepts every port.
	Hosts []string
	// Computing is the largest number of answers that are computed at a time; 0 means 2. Each computation takes
	// memory in proportion to the size of the cluster.
	Computing int
	// Secure is set if browsers reach the server by HTTPS.
	Secure bool
}

// Bounds of requests. Sixteen people who use all of these at the same time need fewer connections than maxConns.
const (
	maxAnswer  = 30 * time.Second // for an answer that is computed
	maxUse     = 10 * time.Second // for what a node measures
	computing  = 2                // answers that are computed at a time
	maxStreams = 32               // streams of changes at a time
	perSecond  = 50               // requests of one person per second
	answered   = 4                // requests of one person that are answered at a time; streams do not count
	waiting    = 8                // requests of one person that wait
	plansRead  = 2                // plans that are read at a time, at most one of each person
	plansWait  = 1                // plans of one person that wait to be read
)

// Handler is the console of one cluster.
type Handler struct {
	config    Config
	mux       *http.ServeMux
	cross     *http.CrossOriginProtection
	requests  *rates // bounds the requests of each person per second
	checks    checks // bounds the credentials that are checked at a time
	answering *turns // bounds the answers for one person at a time
	plans     *turns // bounds the plans that are read at a time
	compute   *turns // bounds the answers that are computed at a time
	streams   streams
	rollouts  rollouts
	routes    []route
	openAPI   []byte
}

// New returns the handler of the console. The caller must close it.
func New(c Config) (*Handler, error) {
	limit := cmp.Or(c.Computing, computing)
	perPerson := max(1, limit-1) // if possible, one place stays free for other people
	h := &Handler{config: c, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(),
		requests: newRates(perSecond), checks: newChecks(), answering: newTurns(0, answered, waiting),
		plans: newTurns(plansRead, 1, plansWait), compute: newTurns(limit, perPerson, waiting)}
	h.routes = h.table()
	var err error
	if h.openAPI, err = describe(h.routes, c.Version); err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	h.register()
	return h, h.pages()
}

// ServeHTTP checks a request and answers it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header(), h.config.Secure)
	if e := h.refuses(r); e != nil {
		e.answer(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}
