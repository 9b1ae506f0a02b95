package ledger_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// cluster is what a scenario is played on: one node, the pods in the API server, and the scheduler's ledger. The
// kubelet uses package place, so a scenario shows only what the ledger knows, and not how a kubelet places pods.
type cluster struct {
	head    string // the lines of the machine
	machine *topo.Machine
	rules   place.Rules
	book    *ledger.Book
	pods    []*member
	// bindings are the pods that are bound, in that order.
	bindings []*member
	// admitted is what the kubelet has.
	admitted []state.Entry
	// written has the reports that wait for delivery; stored is the last one that the API server has.
	written map[string]state.Layout
	stored  *state.Layout
	last    string // what changes last printed
}

// actions are the steps about one pod that need no more than its name.
var actions = map[string]func(*cluster, *member) ([]string, error){
	"turn": (*cluster).turn,
	"bound": func(w *cluster, p *member) ([]string, error) {
		w.book.Assume("n", p.id, p.spec)
		return nil, nil
	},
	"decline": func(w *cluster, p *member) ([]string, error) {
		w.unbind(p)
		w.book.Decline(p.id.UID)
		return nil, nil
	},
	"unreserve": func(w *cluster, p *member) ([]string, error) {
		w.unbind(p)
		w.book.Unreserve(p.id.UID)
		return nil, nil
	},
	"vanish": func(w *cluster, p *member) ([]string, error) {
		p.over = true
		w.book.Vanish(p.id.UID)
		return nil, nil
	},
	"keep": func(w *cluster, p *member) ([]string, error) {
		e, _ := w.book.Snapshot().Node("n").Entry(p.id.UID)
		w.book.Keep(p.id.UID, place.Exclusive(w.machine, e.Holdings))
		return nil, nil
	},
	"overdue": (*cluster).overdue,
	"start":   (*cluster).start,
	"end":     (*cluster).end,
}

// step does one step and returns its output.
func (w *cluster) step(verb string, words []string) ([]string, error) {
	switch verb {
	case "show":
		return w.show(), nil
	case "restart":
		w.restart()
		return nil, nil
	case "forget":
		w.stored = nil
		w.book.Forget("n")
		return nil, nil
	case "rules":
		return nil, w.changeRules(words)
	case "report":
		l, err := w.layout(words)
		if err != nil {
			return nil, err
		}
		return w.deliver(l), nil
	case "fits":
		p, err := w.readPod("asked", words)
		if err != nil {
			return nil, err
		}
		return w.fits(p), nil
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("%s: want a pod or a report", verb)
	}
	switch verb {
	case "reserve", "foreign", "admit":
		return w.arrive(verb, words[0], words[1:])
	case "write":
		l, err := w.layout(words[1:])
		w.written[words[0]] = l
		return nil, err
	case "deliver":
		l, ok := w.written[words[0]]
		if !ok {
			return nil, fmt.Errorf("no report %s was written", words[0])
		}
		return w.deliver(l), nil
	}
	do, known := actions[verb]
	if !known && verb != "status" {
		return nil, fmt.Errorf("do not know %q", verb)
	}
	p := w.find(words[0])
	if p == nil {
		return nil, fmt.Errorf("%s: pod %s does not exist", verb, words[0])
	}
	if verb == "status" {
		return w.status(p, strings.Join(words[1:], " "))
	}
	return do(w, p)
}

func (w *cluster) find(name string) *member {
	if i := slices.IndexFunc(w.pods, func(p *member) bool { return p.name == name }); i >= 0 {
		return w.pods[i]
	}
	return nil
}

// arrive does the steps that may be the first about a pod.
func (w *cluster) arrive(verb, name string, words []string) ([]string, error) {
	last := len(words) > 0 && words[len(words)-1] == "last-devices"
	if last {
		words = words[:len(words)-1]
	}
	p := w.find(name)
	if p == nil {
		var err error
		if p, err = w.readPod(name, words); err != nil {
			return nil, err
		}
		w.pods = append(w.pods, p)
	}
	switch verb {
	case "reserve":
		v, ok := w.book.Reserve("n", p.id, p.spec, p.demand)
		if !ok {
			return []string{"no: the ledger has no report of the node"}, nil
		}
		return w.verdict(p, v, "reserved", "no"), nil
	case "foreign":
		w.bind(p)
		w.book.Assume("n", p.id, p.spec)
		return nil, nil
	}
	w.bind(p)
	return w.admit(p, last)
}

func (w *cluster) bind(p *member) {
	if !p.bound {
		p.bound = true
		w.bindings = append(w.bindings, p)
	}
}

func (w *cluster) unbind(p *member) {
	p.bound = false
	w.bindings = slices.DeleteFunc(w.bindings, func(q *member) bool { return q == p })
}

func (w *cluster) turn(p *member) ([]string, error) {
	v, wait, err := w.book.Turn(p.id.UID, p.created)
	switch {
	case err != nil:
		return []string{"error: " + err.Error()}, nil
	case wait != nil:
		var names []string
		for _, id := range w.book.Ahead(p.id.UID) {
			names = append(names, id.Name)
		}
		if len(names) == 0 {
			return []string{"must wait until the node reports"}, nil
		}
		return []string{"must wait behind " + strings.Join(names, ", ")}, nil
	}
	if v.Fits() {
		w.bind(p)
	}
	return w.verdict(p, v, "may be bound", "no longer fits and loses its reservation"), nil
}

// status delivers the status of a pod. A status shows the binding, too.
func (w *cluster) status(p *member, what string) ([]string, error) {
	if what == "admitted" || what == "running" {
		if w.on(p) < 0 {
			return nil, fmt.Errorf("pod %s is not on the kubelet", p.name)
		}
		w.book.Assume("n", p.id, p.spec)
		p.known, p.running = true, what == "running"
		w.book.Admitted(p.id.UID)
		if p.running {
			w.book.Begun(p.id.UID)
		}
		return nil, nil
	}
	if w.on(p) >= 0 {
		return nil, fmt.Errorf("pod %s is on the kubelet", p.name)
	}
	p.over = true
	switch what {
	case "ended":
		w.book.Release(p.id.UID)
		return nil, nil
	case "rejected":
		o, ok := w.book.Refuse(p.id.UID, place.TopologyAffinityError)
		w.book.Release(p.id.UID)
		if !ok {
			return []string{"no prediction was wrong"}, nil
		}
		return []string{w.outcome(o)}, nil
	}
	return nil, fmt.Errorf("do not know status %q", what)
}

// overdue does what cluster/kube does a minute after a pod was admitted, or its object went.
func (w *cluster) overdue(p *member) ([]string, error) {
	p.due = !p.over
	if p.over || !p.reported {
		w.book.Overdue(p.id.UID)
	}
	if p.due {
		w.book.Unlisted(p.id.UID)
	}
	return nil, nil
}

// restart begins a ledger with what the API server has, in the order of cluster/kube: layouts, bindings, statuses, and
// then reports of amounts.
func (w *cluster) restart() {
	w.book = ledger.New()
	amounts := w.stored != nil && w.stored.Amounts != nil
	if w.stored != nil && !amounts {
		w.book.Report("n", *w.stored)
	}
	for _, p := range w.bindings {
		if !p.over {
			w.book.Recover("n", p.id, p.spec)
		}
	}
	for _, p := range w.bindings {
		if p.known && !p.over {
			w.book.Admitted(p.id.UID)
			if p.running {
				w.book.Begun(p.id.UID)
			}
		}
	}
	w.book.Doubt(func(id state.PodID) bool {
		return slices.ContainsFunc(w.bindings, func(p *member) bool { return p.id.UID == id.UID && !p.over })
	})
	if amounts {
		w.book.Report("n", *w.stored)
	}
}

func (w *cluster) usage() *place.Usage {
	return place.NewUsage(w.machine, w.rules).Hold(state.Holdings(w.admitted)...)
}

// on returns the index of a pod among those that the kubelet has admitted, or -1.
func (w *cluster) on(p *member) int {
	return slices.IndexFunc(w.admitted, func(e state.Entry) bool { return e.Pod == p.id })
}

func (w *cluster) admit(p *member, lastDevices bool) ([]string, error) {
	if w.on(p) >= 0 {
		return nil, fmt.Errorf("pod %s is on the kubelet", p.name)
	}
	v := place.Place(w.usage(), p.spec)
	if v.Fits() {
		v.Holdings = w.taken(v.Holdings, lastDevices)
		w.admitted = append(w.admitted, state.Entry{Pod: p.id, Holdings: v.Holdings})
	}
	return w.verdict(p, v, "the kubelet admits it", "the kubelet rejects it"), nil
}

// taken returns the holdings with the devices that the kubelet takes, where it may take any of several.
func (w *cluster) taken(hs []place.Holding, last bool) []place.Holding {
	hs = slices.Clone(hs)
	for i, h := range hs {
		hs[i].Devices = slices.Clone(h.Devices)
		for j, d := range h.Devices {
			into := &hs[i].Devices[j]
			into.Free, into.Loose = false, false
			if !d.Loose && (!d.Free || !last) {
				continue
			}
			var ids []string
			var numas topo.Mask
			for _, f := range slices.Backward(w.usage().FreeDevices(d.Resource)) {
				if (d.Loose || f.NUMAs == d.NUMAs) && len(ids) < len(d.IDs) {
					ids, numas = append(ids, f.ID), numas|f.NUMAs
				}
			}
			slices.Sort(ids)
			into.IDs, into.NUMAs = ids, numas
		}
	}
	return hs
}

func (w *cluster) start(p *member) ([]string, error) {
	at := w.on(p)
	if at < 0 {
		return nil, fmt.Errorf("pod %s is not on the kubelet", p.name)
	}
	hs := slices.Clone(w.admitted[at].Holdings)
	for i := range hs {
		if hs[i].Kind == place.Init {
			hs[i].Memory = nil
		}
	}
	w.admitted = slices.Clone(w.admitted)
	w.admitted[at].Holdings = slices.DeleteFunc(hs, func(h place.Holding) bool { return h.Empty() })
	return nil, nil
}

func (w *cluster) end(p *member) ([]string, error) {
	at := w.on(p)
	if at < 0 {
		return nil, fmt.Errorf("pod %s is not on the kubelet", p.name)
	}
	w.admitted = slices.Delete(slices.Clone(w.admitted), at, at+1)
	return nil, nil
}

// layout writes a report.
func (w *cluster) layout(words []string) (state.Layout, error) {
	l := state.Layout{Machine: w.machine, Rules: w.rules, Entries: slices.Clone(w.admitted)}
	switch what := strings.Join(words, " "); {
	case what == "":
	case words[0] == "without":
		for _, name := range words[1:] {
			p := w.find(name)
			if p == nil {
				return l, fmt.Errorf("pod %s does not exist", name)
			}
			l.Entries = slices.DeleteFunc(l.Entries, func(e state.Entry) bool { return e.Pod == p.id })
		}
	case what == "amounts":
		l.Amounts = &state.Amounts{}
		for _, e := range l.Entries {
			for _, h := range e.Holdings {
				if h.Kind != place.Init { // the kubelet's podresources service does not list init containers
					l.Amounts.Held = append(l.Amounts.Held, h)
				}
			}
		}
		l.Entries = nil
	default:
		return l, fmt.Errorf("do not know %q", what)
	}
	w.stored = &l
	return l, nil
}

func (w *cluster) deliver(l state.Layout) (out []string) {
	for _, o := range w.book.Report("n", l) {
		out = append(out, w.outcome(o))
	}
	for _, p := range w.pods {
		p.reported = p.known
		if p.due && !p.over {
			w.book.Unlisted(p.id.UID)
		}
	}
	return out
}
