package steer_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	draws = flag.Int("claims.n", 4000, "how many pods with claims are drawn")
	seed  = flag.Uint64("claims.seed", 0, "seed of the pods with claims; 0 draws one")
)

// fit reports whether no card gives more to the chosen and the taken devices than it has.
func (w *world) fit(chosen []*device) bool {
	used := map[string]int64{}
	for _, d := range w.devices {
		if d.part && (d.taken || slices.Contains(chosen, d)) {
			if used[d.card()] += d.takes(); used[d.card()] > 2 {
				return false
			}
		}
	}
	return true
}

// pick is a device that a request gets; wish tells by which of its alternatives.
type pick struct {
	*device
	request *request
	wish    int
}

// name returns the pick as [outcome] has it.
func (p pick) name() string {
	return p.request.path(p.wish) + " " + p.device.String()
}

// search calls visit with every set of devices that the claims allow.
func (w *world) search(visit func(chosen []pick)) {
	w.fulfil(0, nil, map[int]int64{}, func(chosen []pick) {
		if w.fit(devicesOf(chosen)) {
			visit(chosen)
		}
	})
}

func devicesOf(chosen []pick) (out []*device) {
	for _, p := range chosen {
		out = append(out, p.device)
	}
	return out
}

// fulfil fulfils the requests from the given one on. boards has the board of each claim whose devices are together.
func (w *world) fulfil(at int, chosen []pick, boards map[int]int64, visit func([]pick)) {
	if at == len(w.requests) {
		visit(chosen)
		return
	}
	for i, wish := range w.requests[at].wishes {
		var fit []*device
		for _, d := range w.devices {
			if wish.matches(d) {
				fit = append(fit, d)
			}
		}
		lacks := func(d *device) bool { return !wish.gets(d, devicesOf(chosen)) }
		if wish.count == 0 {
			fit = slices.DeleteFunc(fit, func(d *device) bool { return wish.amount > d.capacity }) // these never have so much
			if len(fit) > 0 && !slices.ContainsFunc(fit, lacks) {
				w.take(at, i, fit, len(fit), chosen, boards, visit)
			}
			continue
		}
		w.take(at, i, slices.DeleteFunc(fit, lacks), wish.count, chosen, boards, visit)
	}
}

// take chooses so many devices for a wish of a request, in every way, and goes on with the next request. Of each shared
// device it takes the wish's amount.
func (w *world) take(at, wish int, fit []*device, n int, chosen []pick, boards map[int]int64, visit func([]pick)) {
	if n == 0 {
		w.fulfil(at+1, chosen, boards, visit)
		return
	}
	q := &w.requests[at]
	for i := range fit {
		if len(fit)-i < n {
			return
		}
		d, next := fit[i], boards
		if q.together {
			board, set := boards[q.claim]
			if d.board < 0 || set && board != d.board {
				continue
			}
			next = map[int]int64{q.claim: d.board}
			for claim, board := range boards {
				next[claim] = board
			}
		}
		amount := d.needs(q.wishes[wish].amount)
		d.left -= amount
		w.take(at, wish, fit[i+1:], n-1, append(slices.Clone(chosen), pick{d, q, wish}), next, visit)
		d.left += amount
	}
}

// aligned reports whether all devices with a known NUMA node are on the given ones.
func aligned(chosen []*device, near []int) bool {
	return !slices.ContainsFunc(chosen, func(d *device) bool {
		return d.numas != nil && !slices.ContainsFunc(d.numas, func(n int) bool { return slices.Contains(near, n) })
	})
}

// meets reports whether all devices that the pod demands are known to be on its NUMA nodes.
func (w *world) meets(chosen []pick) bool {
	far := func(d *device) bool { return d.numas == nil || !aligned([]*device{d}, w.near.NUMAs) }
	return len(w.near.NUMAs) == 0 ||
		!slices.ContainsFunc(chosen, func(p pick) bool { return w.demands(p.driver, p.request, p.wish) && far(p.device) }) &&
			!slices.ContainsFunc(w.held, func(d *device) bool { return w.demands(d.driver, w.holder(), 0) && far(d) })
}

// located reports whether each driver that the pod demands has a device whose NUMA node is known.
func (w *world) located() bool {
	return len(w.near.NUMAs) == 0 || !slices.ContainsFunc(w.drivers, func(driver string) bool {
		return !slices.ContainsFunc(w.devices, func(d *device) bool { return d.driver == driver && d.numas != nil })
	})
}

// fewest returns the smallest number of NUMA nodes on which devices can be taken to be, at least 1.
func fewest(chosen []*device) int {
	ids := []int{0, 1, 4, 9}
	best := len(ids)
	for set := range 1 << len(ids) {
		var near []int
		for i, id := range ids {
			if set&(1<<i) != 0 {
				near = append(near, id)
			}
		}
		if len(near) < best && aligned(chosen, near) {
			best = max(1, len(near))
		}
	}
	return best
}

// The devices that a pod gets are a set that its claims allow. Where an allowed set is aligned, the pod gets an aligned
// one; a pod without CPUs gets one on as few NUMA nodes as any. A pod is refused only if there is no set at all, or no
// aligned one where that is required, or none that meets its demand. An exhaustive search finds all sets.
func TestDevicesAreAlignedWheneverTheyCanBe(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 1))
	b := newBench(t)
	count := map[string]int{}
	for i := range *draws {
		w := draw(r)
		got := b.schedule(context.Background(), t, w.put(b))
		if why := w.judge(got, count); why != "" {
			t.Fatalf("draw %d of seed %d: %s\n%s", i, *seed, why, w)
		}
	}
	t.Logf("%v", count)
	for _, kind := range []string{"aligned", "elsewhere", "few", "refused", "none", "as demanded", "as named",
		"demand refused", "nowhere"} {
		if count[kind] == 0 && *draws >= 1000 {
			t.Errorf("no pod was %s", kind)
		}
	}
}

// judge compares what a pod got with the exhaustive search; it returns "" if both agree.
func (w *world) judge(got outcome, count map[string]int) string {
	allowed, can, meet, least := map[string][]pick{}, false, false, len(w.devices)
	w.search(func(chosen []pick) {
		var names []string
		for _, p := range chosen {
			names = append(names, p.name())
		}
		slices.Sort(names)
		allowed[strings.Join(names, " ")] = chosen
		whole := append(devicesOf(chosen), w.held...)
		meet = meet || w.meets(chosen)
		can = can || aligned(whole, w.near.NUMAs) && w.meets(chosen)
		least = min(least, fewest(whole))
	})
	chosen, found := allowed[strings.Join(got.granted, " ")]
	whole := append(devicesOf(chosen), w.held...)
	must := w.near.Must && len(w.near.NUMAs) > 0
	meet = meet && w.located()
	switch {
	case got.why != "" && len(allowed) > 0 && meet && !(must && !can):
		return fmt.Sprintf("refused (%s), but %d sets are allowed, aligned: %v", got.why, len(allowed), can)
	case got.why != "":
		return w.judgeRefusal(got.why, len(allowed), meet, count)
	case !found:
		return fmt.Sprintf("got %v, which is not allowed", got.granted)
	case len(w.near.NUMAs) == 0:
		count["few"]++
		if n := fewest(whole); n > least {
			return fmt.Sprintf("got %v on %d NUMA nodes, and %d are enough", got.devices, n, least)
		}
	case !w.meets(chosen) || !w.located():
		return fmt.Sprintf("got %v, and the pod demands otherwise", got.devices)
	case can:
		count["aligned"]++
		if !aligned(whole, w.near.NUMAs) {
			return fmt.Sprintf("got %v, though there is an aligned set", got.devices)
		}
	case must:
		return fmt.Sprintf("got %v, and no aligned set exists", got.devices)
	case len(w.drivers)+len(w.named) > 0:
		count["as demanded"]++
		if len(w.named) > 0 {
			count["as named"]++
		}
	default:
		count["elsewhere"]++
	}
	return ""
}

// judgeRefusal is judge for a pod that was rightly refused. meet is true if the pod's demand can be met.
func (w *world) judgeRefusal(why string, allowed int, meet bool, count map[string]int) string {
	reason := "the pod's claims get no devices on NUMA node"
	switch {
	case !w.located():
		count["demand refused"]++
		reason = "has a known NUMA node, as tenon.sh/align demands"
	case allowed == 0:
		count["none"]++
		return ""
	case !meet:
		count["demand refused"]++
		if strings.Contains(why, "the node has no device with a known NUMA node, as tenon.sh/align demands") {
			count["nowhere"]++
			return ""
		}
	default:
		count["refused"]++
	}
	if !strings.Contains(why, reason) {
		return fmt.Sprintf("refused without the reason %q: %s", reason, why)
	}
	return ""
}
