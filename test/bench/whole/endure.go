package whole

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/v1alpha1/client"
)

// Endured is how the pods of other users fared under one scheduler before and during one attack.
type Endured struct {
	Contender, Attack, By string
	Calm, Attacked        Waits
	Calmly, Peak          int64         // peak memory of the scheduler in bytes: until the attack begins, until it ends
	CPU                   time.Duration // of the scheduler during the attack
	Ended                 string        // why the scheduler ended; empty if it still runs
}

// Waits are the times from the creation of pods until their binding.
type Waits struct {
	Pods, Unbound int // created pods, and how many of them were not bound in time
	P50, P99, Max time.Duration
}

// The pace of ordinary pods, and their number before an attack and during it. An attack starts earlier than the pods
// by the time lead, so that it has taken effect. The measurement ends at the latest when the time patience has passed
// since the last creation. A pod that is not bound by then counts as unbound, with its waiting time until then.
const (
	ordinaryPause = 100 * time.Millisecond
	calmPods      = 100
	attackedPods  = 200
	lead          = 2 * time.Second
	patience      = 30 * time.Second
)

// Endure plays every attack against every contender, each on the same cluster, and returns how ordinary pods fared.
func Endure(ctx context.Context, o Options, attacks []Attack) (out []Endured, err error) {
	o.Pods = calmPods + attackedPods
	err = o.withCluster(ctx, func(a *arena) error {
		for _, x := range attacks {
			for _, c := range o.Contenders {
				e, err := a.endure(ctx, c, x)
				if err != nil {
					return fmt.Errorf("attack %q against %s: %w", x.Name, c.Name, err)
				}
				out = append(out, e)
				a.say("%s", e.line())
			}
		}
		return nil
	})
	return out, err
}

func (e Endured) line() string {
	s := fmt.Sprintf("%s: %s: p50 %d -> %d ms, p99 %d -> %d ms, most %d ms, %d of %d not bound; memory %d -> %d MiB; "+
		"%.1f CPU s",
		e.Contender, e.Attack, e.Calm.P50.Milliseconds(), e.Attacked.P50.Milliseconds(), e.Calm.P99.Milliseconds(),
		e.Attacked.P99.Milliseconds(),
		e.Attacked.Max.Milliseconds(), e.Attacked.Unbound, e.Attacked.Pods, e.Calmly>>20, e.Peak>>20, e.CPU.Seconds())
	if e.Ended != "" {
		s += "; the scheduler ended"
	}
	return s
}

// endure runs one attack against one contender.
func (a *arena) endure(ctx context.Context, c Contender, x Attack) (e Endured, err error) {
	e = Endured{Contender: c.Name, Attack: x.Name, By: x.By}
	s, err := a.open(c)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	seen, err := follow(ctx, s.client)
	if err != nil {
		return e, err
	}
	defer seen.finish()
	p, address, err := c.start(s.dir, s.plane, a.QPS)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if e.Calm, err = a.createOrdinary(ctx, s, seen, p, "calm", a.pods[:calmPods]); err != nil {
		return e, err
	}
	if e.Calmly, err = p.peak(); err != nil {
		return e, err
	}
	before, err := p.cpu()
	if err != nil {
		return e, err
	}
	layouts, err := client.New(s.plane.admin)
	if err != nil {
		return e, err
	}
	if a.Profiles != "" {
		profiling, cancel := context.WithCancel(ctx)
		done := a.profile(profiling, c.Name+" "+x.By+" "+x.Name, s, address)
		defer func() { cancel(); err = errors.Join(err, <-done) }()
	}
	attacked, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- x.run(attacked, &target{client: s.client, layouts: layouts, cluster: a.cluster, liar: liar(a.cluster)})
	}()
	wait(ctx, lead)
	e.Attacked, err = a.createOrdinary(ctx, s, seen, p, "attacked", a.pods[calmPods:])
	cancel()
	if err := cmp.Or(err, <-done); err != nil {
		return e, err
	}
	return e, e.recordSpent(p, before)
}

// recordSpent records the resources that the scheduler used, or how it ended.
func (e *Endured) recordSpent(p fleet, before time.Duration) error {
	if err := p.failure(); err != nil {
		e.Ended = err.Error()
		return nil
	}
	after, err := p.cpu()
	if err != nil {
		return err
	}
	e.CPU = after - before
	e.Peak, err = p.peak()
	return err
}

// wait waits, or returns when the context ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// createOrdinary creates ordinary pods at a steady pace, and measures how long each waits for its binding. If name is
// "calm", the first pod is not counted, because it waits for the start of the scheduler.
func (a *arena) createOrdinary(ctx context.Context, s *stage, seen *follower, p fleet, name string,
	pods []*v1.Pod) (Waits, error) {
	created := map[types.UID]time.Time{}
	var mu sync.Mutex
	var all sync.WaitGroup
	var first error
	for i, pod := range pods {
		all.Go(func() {
			at := time.Now()
			uid, err := createOne(ctx, s.client, fmt.Sprintf("%s-%06d", name, i), pod)
			mu.Lock()
			defer mu.Unlock()
			created[uid], first = at, cmp.Or(first, err)
		})
		if i == 0 && name == "calm" { // the scheduler starts
			all.Wait()
			if err := seen.awaitBound(ctx, created, patience, p); err != nil {
				return Waits{}, err
			}
			clear(created)
			continue
		}
		wait(ctx, ordinaryPause)
	}
	all.Wait()
	if first != nil {
		return Waits{}, first
	}
	// The error does not matter: waits counts the pods that are not bound by then as unbound.
	_ = seen.awaitBound(ctx, created, patience, p)
	return seen.waits(created, time.Now()), context.Cause(ctx)
}

// awaitBound returns nil when all pods are bound. It returns an error if that takes longer than the given time, or if
// the scheduler's process p ends.
func (f *follower) awaitBound(ctx context.Context, created map[types.UID]time.Time, limit time.Duration,
	p fleet) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("pods are not bound in time"))
	defer cancel()
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for {
		if f.waits(created, time.Now()).Unbound == 0 {
			return nil
		}
		if err := p.failure(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waits returns how long pods waited for a node since their creation. A pod without a node has waited until now.
func (f *follower) waits(created map[types.UID]time.Time, now time.Time) Waits {
	f.mu.Lock()
	bound := map[types.UID]time.Time{}
	for _, b := range f.bindings {
		bound[b.pod] = b.at
	}
	f.mu.Unlock()
	w := Waits{Pods: len(created)}
	var all []time.Duration
	for uid, at := range created {
		end, ok := bound[uid]
		if !ok {
			end = now
			w.Unbound++
		}
		all = append(all, end.Sub(at))
	}
	if len(all) == 0 {
		return w
	}
	slices.Sort(all)
	w.P50, w.P99, w.Max = all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
	return w
}

// ReportEndured returns a Markdown report on how other users fared under attacks.
func ReportEndured(all []Endured) string {
	var b strings.Builder
	b.WriteString("| attack | by | scheduler | p50, ms | p99, ms | most, ms | not bound | memory, MiB | CPU s |\n")
	b.WriteString("|---|---|---|---:|---:|---:|---:|---:|---:|\n")
	for _, e := range all {
		ms := func(d time.Duration) int64 { return d.Milliseconds() }
		memory := fmt.Sprintf("%d -> %d", e.Calmly>>20, e.Peak>>20)
		if e.Ended != "" {
			memory = "it died"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d -> %d | %d -> %d | %d | %d of %d | %s | %.1f |\n", e.Attack, e.By, e.Contender,
			ms(e.Calm.P50), ms(e.Attacked.P50), ms(e.Calm.P99), ms(e.Attacked.P99), ms(e.Attacked.Max), e.Attacked.Unbound,
			e.Attacked.Pods, memory, e.CPU.Seconds())
	}
	return b.String()
}
