// Package console is a page and an HTTP API that show one cluster to the person who is signed in: nodes by NUMA node,
// who holds what, where pods fit and why not, and what would happen.
//
// Invariant: an answer has only what the identity of the request may read; identities share the program, and how far a
// change of kubelets is. The answers are the documents of kubectl tenon, by the same functions. The handler changes a
// cluster only where the person asks for it, with the rights of the person. It refuses requests to another host, from
// another site, without a session, beyond bounds, and names that Kubernetes could not have given; each refusal is a
// problem document (RFC 9457) that names the field.
//
// What is known of a cluster comes through [Identity], which the caller connects.
package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/live"
	"github.com/tenon-numa/tenon/face/cli"
)

// View is what an identity may read of a cluster, in memory. Its methods may be called from any goroutine.
type View interface {
	// State returns the nodes as they are now.
	State() live.State
	// Pods returns the pods that accept returns true for, in ascending order of namespace and name.
	Pods(accept func(live.Pod) bool) []live.Pod
	// Follow returns a follower of what changes from now on.
	Follow() live.Follower
}

// Schedulers reads and changes the configuration of schedulers, with the rights of an identity. Errors are the API
// server's.
type Schedulers interface {
	// List returns the schedulers in ascending order of ID, and what may not be read.
	List(ctx context.Context) ([]document.Scheduler, []document.Limit, error)
	// Get returns one scheduler; id may be empty where there is only one.
	Get(ctx context.Context, id string) (document.Scheduler, error)
	// Set turns the NUMA plugin of a scheduler on or off.
	Set(ctx context.Context, change document.PluginChange) (document.NUMAAware, error)
}

// Identity is a person or program that is signed in, and what it may read.
type Identity struct {
	// Name is for people.
	Name string
	View View
	// Cluster and Stages answer what commands ask; see package cli. Of Stages there are Cluster and Vary.
	Cluster cli.Cluster
	Stages  cli.Stages
	// History is what schedulers and kubelets said of a pod.
	History    func(ctx context.Context, namespace, pod string) (document.PodHistory, error)
	Schedulers Schedulers
	// Doctor examines the cluster; nil where nothing does.
	Doctor func(ctx context.Context, o cli.DoctorOptions) (document.Diagnosis, error)
	// Kubelets changes kubelets' configuration; nil where nothing does.
	Kubelets Kubelets
	// Use is what a node uses, by everybody's pods; nil where nothing measures it. The time line may have the containers
	// of the pod ("namespace/name") alone.
	Use func(ctx context.Context, node, pod string) document.NodeUse
	// Affinity is what a node's agent measured between pods of all people, or no nodes; nil where nothing does. Errors are
	// the API server's.
	Affinity func(ctx context.Context, node string) (document.Affinity, error)
	// Valid reports whether the API server still accepts the identity; nil means always.
	Valid func() bool
	// Close ends the view; nil where there is nothing to end.
	Close func()

	overviews overviews
}

// person returns whose requests the identity's are counted with.
func (i *Identity) person() string { return person(i.Name) }

// Identities say who makes a request.
type Identities interface {
	// Identify returns who makes the request. The error is nil, [ErrSignIn] or one that wraps it.
	Identify(r *http.Request) (*Identity, error)
	// SignIn exchanges a credential for a session and returns its cookie.
	SignIn(ctx context.Context, c Credential) (*Identity, *http.Cookie, error)
	// SignOut ends the session of a request, and returns a cookie that removes its own.
	SignOut(r *http.Request) *http.Cookie
}

// Config is what a main program hands to [New].
type Config struct {
	Version    string
	Identities Identities
	// Hosts are what the header Host may be. One without a port stands for every port.
	Hosts []string
	// Computing is how many answers are computed at a time; 0: 2. Each takes memory in proportion to the cluster.
	Computing int
	// Secure: browsers reach the server by HTTPS.
	Secure bool
}

// Bounds of requests. 16 people with all that they may have at a time use fewer connections than maxConns.
const (
	maxAnswer  = 30 * time.Second // for an answer that is computed
	maxUse     = 10 * time.Second // for what a node measures
	computing  = 2                // answers that are computed at a time
	maxStreams = 32               // streams of changes at a time
	perSecond  = 50               // requests of one person
	answered   = 4                // requests of one person at a time, without streams
	waiting    = 8                // requests of one person that wait
	plansRead  = 2                // plans that are read at a time, each of another person
	plansWait  = 1                // of one person
)

// Handler is the console of one cluster.
type Handler struct {
	config    Config
	mux       *http.ServeMux
	cross     *http.CrossOriginProtection
	requests  *rates // of people
	checks    checks // of those who sign in
	answering *turns
	plans     *turns
	compute   *turns
	streams   streams
	rollouts  rollouts
	routes    []route
	openAPI   []byte
}

// New returns the handler of the console.
func New(c Config) (*Handler, error) {
	most := cmp.Or(c.Computing, computing)
	h := &Handler{config: c, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(),
		requests: newRates(perSecond), checks: newChecks(), answering: newTurns(0, answered, waiting),
		plans: newTurns(plansRead, 1, plansWait), compute: newTurns(most, max(1, most-1), waiting)}
	h.routes = h.table()
	var err error
	if h.openAPI, err = describe(h.routes, c.Version); err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	h.register()
	return h, h.pages()
}

// ServeHTTP guards and answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header(), h.config.Secure)
	if e := h.refuses(r); e != nil {
		e.answer(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}
