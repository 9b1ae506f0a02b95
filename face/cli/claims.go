package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/face/draw"
)

// This file writes the devices that drivers publish for claims (DRA), and who holds them. The kubelet and Tenon's
// holdings do not have these devices.

// claimReader is a [Cluster] that also reads what claims hold.
type claimReader interface {
	// Claims returns the devices of drivers and their holders.
	Claims(ctx context.Context) (*document.Claims, error)
}

// nodeClaimReader is a [Cluster] that reads the claims of one node, which costs less where the cluster is large.
type nodeClaimReader interface {
	// ClaimsOn returns the devices of a node, and what its pods hold; with the name "", what pods without a node hold.
	ClaimsOn(ctx context.Context, node string) (*document.Claims, error)
}

// claimsOfPod returns what a pod holds by its claims; nil if it has none, or if the cluster does not have it.
func claimsOfPod(ctx context.Context, c Cluster, p view.Pod) (*document.PodClaims, error) {
	if r, ok := c.(nodeClaimReader); ok && p.Claimed {
		all, err := r.ClaimsOn(ctx, p.Node)
		if err != nil {
			return nil, fmt.Errorf("read the devices of claims: %w", err)
		}
		return all.Pod(p.ID.UID), nil
	}
	all, err := claimsOf(ctx, c, p)
	return all.Pod(p.ID.UID), err
}

// claimsIn returns what claims hold, or nil if the cluster does not have it.
func claimsIn(ctx context.Context, c Cluster) (*document.Claims, error) {
	r, ok := c.(claimReader)
	if !ok {
		return nil, nil
	}
	all, err := r.Claims(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the devices of claims: %w", err)
	}
	return all, nil
}

// claimsOf returns what claims hold if one of the pods has claims, and nil otherwise.
func claimsOf(ctx context.Context, c Cluster, pods ...view.Pod) (*document.Claims, error) {
	if !slices.ContainsFunc(pods, func(p view.Pod) bool { return p.Claimed }) {
		return nil, nil
	}
	return claimsIn(ctx, c)
}

// claimsOn returns what claims hold on the nodes of a stage; nil if that is not known.
func claimsOn(s Stage) *document.Claims {
	if r, ok := s.(interface{ Claims() *document.Claims }); ok {
		return r.Claims()
	}
	return nil
}

// claimRooms returns for each driver how many devices are free: on the NUMA node with the most of them, and together.
// It returns nil if the holders are not known.
func claimRooms(n *document.NodeClaims) (out []room) {
	if n == nil || n.Unread != "" {
		return nil
	}
	for _, g := range claimGroups(n) {
		i := slices.IndexFunc(out, func(r room) bool { return r.Resource == g.driver })
		if i < 0 {
			i, out = len(out), append(out, room{Resource: g.driver})
		}
		out[i].Free += int64(g.free)
		for _, devices := range g.kept {
			out[i].Kept += int64(len(devices))
		}
		if g.numa != nil {
			out[i].Largest = max(out[i].Largest, int64(g.free))
		}
	}
	slices.SortFunc(out, func(a, b room) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

const unknownPlace = "unknown"

// numaText names the NUMA node of a device.
func numaText(numa *int32) string {
	if numa == nil {
		return unknownPlace
	}
	return fmt.Sprint(*numa)
}

// claimGroup is a group of a node's devices, in order of NUMA node and driver. The devices at unknown places come last.
type claimGroup struct {
	numa      *int32
	driver    string
	all, free int
	unclear   int // devices without a holder that others may use a part of
	held      []string
	kept      map[document.KeptFor][]string // devices
	unread    bool                          // other devices may have holders, too
}

// claimGroups returns the devices of a node in groups.
func claimGroups(n *document.NodeClaims) []*claimGroup {
	type key struct {
		place  int64
		driver string
	}
	groups := map[key]*claimGroup{}
	for i := range n.Devices {
		d := &n.Devices[i]
		k := key{1 << 40, d.Driver}
		if d.NUMA != nil {
			k.place = int64(*d.NUMA)
		}
		g := groups[k]
		if g == nil {
			g = &claimGroup{numa: d.NUMA, driver: d.Driver, unread: n.Unread != "", kept: map[document.KeptFor][]string{}}
			groups[k] = g
		}
		g.all++
		switch {
		case len(d.Holders) > 0:
			g.held = append(g.held, holdersText(d))
		case d.Kept != nil:
			g.kept[*d.Kept] = append(g.kept[*d.Kept], d.Device)
		case d.Shared:
			g.unclear++
		default:
			g.free++
		}
	}
	var out []*claimGroup
	for _, k := range slices.SortedFunc(maps.Keys(groups), func(a, b key) int {
		if a.place != b.place {
			return int(min(1, max(-1, a.place-b.place)))
		}
		return strings.Compare(a.driver, b.driver)
	}) {
		out = append(out, groups[k])
	}
	return out
}

// keptTexts names the devices of a group that are kept for requests, one text for each request.
func (g *claimGroup) keptTexts() (out []string) {
	for _, k := range slices.SortedFunc(maps.Keys(g.kept), func(a, b document.KeptFor) int {
		return cmp.Or(strings.Compare(a.Request, b.Request), strings.Compare(a.Until, b.Until))
	}) {
		devices := g.kept[k]
		text := strings.Join(devices[:min(fewOf, len(devices))], ", ")
		if more := len(devices) - fewOf; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, text+" kept for request "+k.Request+" until "+k.Until)
	}
	return out
}

// holdersText names a device and who holds it: the pods, or the claim if its pods are not known.
func holdersText(d *document.ClaimDevice) string {
	var who []string
	for _, h := range d.Holders {
		if len(h.Pods) == 0 {
			who = append(who, "claim "+h.Namespace+"/"+h.Claim)
		}
		for _, p := range h.Pods {
			who = append(who, p.Namespace+"/"+p.Name)
		}
	}
	out := d.Device
	if d.Unpublished {
		out += " (not published)"
	}
	more := d.MoreHolders + max(0, len(who)-fewOf)
	out += " by " + strings.Join(who[:min(fewOf, len(who))], ", ")
	if more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// freeText returns how many devices of a group are free. A device is free if no claim holds it, it is kept for no
// request, and no other device or claim can have a part of it.
func (g *claimGroup) freeText() string {
	switch {
	case g.unread:
		return "unknown"
	case g.unclear > 0:
		return fmt.Sprintf("%d, %d unclear", g.free, g.unclear)
	}
	return fmt.Sprint(g.free)
}

// driverWidth bounds the column of drivers: a driver's name may have 63 letters.
const driverWidth = 36

// heldBound bounds the holders in one row of the text; JSON has all.
const heldBound = 16

// writeNodeClaims writes the devices of a node, one row for each NUMA node and driver. Without devices it writes
// nothing.
func writeNodeClaims(w io.Writer, node string, all *document.Claims) error {
	n := all.Node(node)
	if n == nil {
		if all == nil || all.Unread == "" {
			return nil
		}
		_, err := fmt.Fprintf(w, "\nDevices of claims are not known: %s.\n", all.Unread)
		return err
	}
	t := table{heads: []string{"NUMA", "DRIVER", "DEVICES", "FREE", "HELD"}}
	for _, g := range claimGroups(n) {
		all := slices.Concat(g.keptTexts(), g.held)
		held := all[:min(heldBound, len(all))]
		if more := len(all) - heldBound; more > 0 {
			held = append(slices.Clone(held), fmt.Sprintf("and %d more", more))
		}
		text := strings.Join(held, joint)
		if text == "" {
			text = "-"
		}
		driver := draw.Clip(g.driver, driverWidth)
		t.rows = append(t.rows, []string{numaText(g.numa), driver, fmt.Sprint(g.all), g.freeText(), text})
	}
	fmt.Fprintf(w, "\nDevices of drivers, which claims hold:\n\n")
	if err := t.write(w, false); err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	if n.Omitted > 0 {
		fmt.Fprintf(b, "... and %d more devices\n", n.Omitted)
	}
	for _, p := range n.Problems[:min(fewOf, len(n.Problems))] {
		writeWrapped(b, "", "Warning: "+p+".")
	}
	if n.Unread != "" {
		writeWrapped(b, "", "Not all holders are known: "+n.Unread+".")
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write devices of claims: %w", err)
	}
	return nil
}

// claimItems returns for each driver how many of a node's devices are free, and how many there are: "gpu.x.com 2/4".
func claimItems(n *document.NodeClaims) (out []string) {
	if n == nil {
		return nil
	}
	free, all := map[string]int{}, map[string]int{}
	for _, g := range claimGroups(n) {
		free[g.driver] += g.free
		all[g.driver] += g.all
	}
	for _, driver := range slices.Sorted(maps.Keys(all)) {
		count := fmt.Sprint(free[driver])
		if n.Unread != "" {
			count = "?"
		}
		out = append(out, fmt.Sprintf("%s %s/%d", driver, count, all[driver]))
	}
	return out
}

// podNUMAs returns the NUMA nodes of a pod's devices, as text: "0-1", "0, unknown".
func podNUMAs(c *document.PodClaims) string {
	var known idset.Set[idset.NUMA]
	var out []string
	unknown := false
	for i := range c.Devices {
		if d := &c.Devices[i]; d.NUMA != nil {
			known = known.Union(idset.Of(idset.NUMA(*d.NUMA)))
		} else {
			unknown = true
		}
	}
	if known.Len() > 0 {
		out = append(out, known.String())
	}
	if unknown {
		out = append(out, unknownPlace)
	}
	return strings.Join(out, ", ")
}

// besideText returns whether a pod's devices are beside what the kubelet gave it: "no" if one is not, and "-" if the
// kubelet gave it nothing, or if the place of a device is not known.
func besideText(c *document.PodClaims, n *state.Node, e *state.Entry) string {
	unknown := slices.ContainsFunc(c.Devices, func(d document.PodDevice) bool { return d.NUMA == nil })
	switch {
	case c.Apart() > 0:
		return "no"
	case unknown || !pinned(n, e):
		return "-"
	}
	return "yes"
}

// pinned reports whether it is known that a kubelet gave a pod something on certain NUMA nodes. Both may be nil.
func pinned(n *state.Node, e *state.Entry) bool {
	return n != nil && n.Quality == state.Exact && e != nil && spread(n, e.Holdings...) != "-"
}

// deviceItems returns the devices of a pod, as text.
func deviceItems(c *document.PodClaims) (out []string) {
	for i := range c.Devices {
		d := &c.Devices[i]
		out = append(out, d.Driver+" "+d.Device)
	}
	return out
}

// writeClaims writes what a pod holds by its claims, and why some of them hold nothing.
func (e *explanation) writeClaims(b *bufio.Writer) {
	c := e.claims
	if c == nil || e.ended() {
		return
	}
	if len(c.Devices) > 0 {
		fmt.Fprintf(b, "\nBy its claims it holds:\n\n")
		t := table{heads: []string{"CLAIM", "NUMA", "APART", "DEVICE"}}
		for i := range c.Devices {
			d := &c.Devices[i]
			apart := "-"
			if d.NUMA != nil && pinned(e.home, e.holds) {
				apart = yesNo(d.Apart)
			}
			t.rows = append(t.rows, []string{d.Claim, numaText(d.NUMA), apart, d.Driver + " " + d.Pool + "/" + d.Device})
		}
		_ = t.write(b, false) // a bufio.Writer keeps its error until Flush
	}
	if n := c.Apart(); n > 0 {
		fmt.Fprintln(b)
		writeWrapped(b, "", fmt.Sprintf("%s on other NUMA nodes than what the kubelet gave the pod.",
			choose(n, "1 device is", fmt.Sprintf("%d devices are", n))))
	}
	if len(c.Without) > 0 || c.Unread != "" {
		fmt.Fprintln(b)
	}
	for _, why := range c.Without {
		writeWrapped(b, "", "Its "+why+".")
	}
	writeKeptDevices(b, c)
	if c.Unread != "" {
		writeWrapped(b, "", "Devices of its claims may be missing here: "+c.Unread+".")
	}
}

// writeKeptDevices writes which devices a pod does not get that waits for some, because they are kept for requests.
func writeKeptDevices(b *bufio.Writer, c *document.PodClaims) {
	if len(c.Kept) == 0 {
		return
	}
	fmt.Fprintf(b, "\nIt gets none of these devices, which are free and kept for pods that have not come:\n\n")
	t := table{heads: []string{"NODE", "DRIVER", "DEVICES", "KEPT FOR REQUEST", "UNTIL"}}
	more := c.MoreKept
	for i, k := range c.Kept {
		if i >= fewNodes {
			more += k.Devices
			continue
		}
		t.rows = append(t.rows, []string{k.Node, draw.Clip(k.Driver, driverWidth), fmt.Sprint(k.Devices), k.Request, k.Until})
	}
	_ = t.write(b, false) // a bufio.Writer keeps its error until Flush
	if more > 0 {
		fmt.Fprintf(b, "... and %d more devices\n", more)
	}
}
