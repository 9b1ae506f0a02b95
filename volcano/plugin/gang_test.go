package plugin

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
)

// two is a machine of two NUMA nodes with 16 CPUs each.
const two = `
numa 0 socket 0 cpus 0-15 memory 64Gi
numa 1 socket 1 cpus 16-31 memory 64Gi
`

// If only some tasks of a gang can be aligned, the gang holds nothing: neither its tasks nor their NUMA nodes.
func TestAGangThatCannotBeCompleteHoldsNothing(t *testing.T) {
	c := newCluster(t)
	c.node("n", two, place.SingleNUMA)
	c.job("gang", "default", 3, "cpu=10 x3", priority(10)) // 30 of 32 CPUs, but one task for each NUMA node
	o := c.session("allocate")
	if len(o.bound) > 0 || len(c.booked()) > 0 {
		t.Errorf("bound %v, booked %v of a gang that does not fit", o.bound, c.booked())
	}
	if why := strings.Join(slices.Collect(maps.Values(o.why)), " "); !strings.Contains(why, "cannot align") {
		t.Errorf("reasons %q, want one about alignment", why)
	}
	c.job("small", "default", 1, "cpu=16 x2")
	o = c.session("allocate")
	if len(o.bound) != 2 || !slices.Equal(c.booked(), []string{"small-0", "small-1"}) {
		t.Errorf("bound %v, booked %v, want the small job on both NUMA nodes", o.bound, c.booked())
	}
	if failed := c.bind(o); len(failed) > 0 {
		t.Errorf("not bound: %v", failed)
	}
}

// A gang that fits is bound as a whole, and the ledger has every task where Volcano binds it.
func TestAGangIsBookedTogether(t *testing.T) {
	c := newCluster(t)
	c.node("a", two, place.SingleNUMA)
	c.node("b", two, place.SingleNUMA)
	c.job("gang", "default", 4, "cpu=10 x4")
	o := c.session("allocate")
	if len(o.bound) != 4 || len(c.booked()) != 4 {
		t.Fatalf("bound %v, booked %v, want four tasks", o.bound, c.booked())
	}
	if failed := c.bind(o); len(failed) > 0 {
		t.Errorf("not bound: %v", failed)
	}
	for _, n := range []string{"a", "b"} {
		if got := len(c.sched.Sources().Book.Snapshot().Node(n).Entries); got != 2 {
			t.Errorf("node %s has %d tasks, want 2", n, got)
		}
	}
}

// If one task of a gang loses its place between the session and the first binding, no task is bound, and the whole gang
// is tried again.
func TestAGangThatLosesAPlaceIsNotBoundInPart(t *testing.T) {
	c := newCluster(t)
	c.node("a", two, place.SingleNUMA)
	c.node("b", two, place.SingleNUMA)
	c.job("gang", "default", 4, "cpu=10 x4")
	o := c.session("allocate")
	c.job("foreign", "default", 1, "cpu=16 x2")
	c.run("foreign-0", "b") // another scheduler takes both NUMA nodes of b
	c.run("foreign-1", "b")
	failed := c.bind(o)
	if len(failed) != 4 {
		t.Errorf("not bound: %v, want all four", failed)
	}
	if got := c.booked(); !slices.Equal(got, []string{"foreign-0", "foreign-1"}) {
		t.Errorf("booked %v, want the foreign pods only", got)
	}
	c.node("c", two, place.SingleNUMA)
	o = c.session("allocate")
	if failed := c.bind(o); len(failed) > 0 || len(o.bound) != 4 {
		t.Errorf("bound %v, not bound: %v, want the whole gang on a and c", o.bound, failed)
	}
}

// A task whose binding the API server rejects gives back what it had booked, and the next session binds it.
func TestATaskThatIsNotBoundIsTriedAgain(t *testing.T) {
	c := newCluster(t)
	c.node("n", two, place.SingleNUMA)
	c.job("gang", "default", 2, "cpu=10 x2")
	if failed := c.bind(c.session("allocate"), "gang-1"); len(failed) != 1 {
		t.Fatalf("not bound: %v, want gang-1", failed)
	}
	if got := c.booked(); !slices.Equal(got, []string{"gang-0"}) {
		t.Errorf("booked %v, want gang-0", got)
	}
	o := c.session("allocate")
	if failed := c.bind(o); len(failed) > 0 || o.bound["gang-1"] != "n" {
		t.Errorf("bound %v, not bound: %v, want gang-1 on n", o.bound, failed)
	}
}

// Another plugin may fail before a task is bound. Volcano then calls no method of this plugin, and schedules the task
// anew.
func TestATaskThatAnotherPluginKeepsFromItsNodeIsTriedAgain(t *testing.T) {
	c := newCluster(t)
	c.node("n", two, place.SingleNUMA)
	c.job("job", "default", 1, "cpu=10")
	c.session("allocate")
	c.again("job-0") // its volumes could not be bound
	if o := c.session(); len(o.bound) > 0 || len(c.booked()) > 0 {
		t.Errorf("booked %v after a session without any action", c.booked())
	}
	if o := c.session("allocate"); len(c.bind(o)) > 0 || o.bound["job-0"] != "n" {
		t.Errorf("bound %v, want job-0 on n", o.bound)
	}
}

// A node that disappears before a gang is bound keeps the whole gang from being bound.
func TestAGangIsNotBoundWhenANodeDisappears(t *testing.T) {
	c := newCluster(t)
	c.node("a", two, place.SingleNUMA)
	c.node("b", two, place.SingleNUMA)
	c.job("gang", "default", 4, "cpu=10 x4")
	o := c.session("allocate")
	c.lose("b")
	if failed := c.bind(o); len(failed) != 4 {
		t.Errorf("not bound: %v, want all four", failed)
	}
	if got := c.booked(); len(got) > 0 {
		t.Errorf("booked %v", got)
	}
	if o = c.session("allocate"); len(o.bound) > 0 {
		t.Errorf("bound %v on the node that is left, which takes two", o.bound)
	}
}

// A scheduler that is restarted while a gang is bound reads the holdings of the bound tasks, and binds the other tasks
// beside them.
func TestARestartInTheMiddleOfAGang(t *testing.T) {
	c := newCluster(t)
	c.node("n", two, place.SingleNUMA)
	c.job("gang", "default", 2, "cpu=10 x2")
	o := c.session("allocate")
	o.binds = o.binds[:1]
	if failed := c.bind(o); len(failed) > 0 {
		t.Fatalf("not bound: %v", failed)
	}
	c.restart()
	o = c.session("allocate")
	if failed := c.bind(o); len(failed) > 0 || len(o.bound) != 1 {
		t.Errorf("bound %v, not bound: %v, want the other task", o.bound, failed)
	}
	if got := c.booked(); !slices.Equal(got, []string{"gang-0", "gang-1"}) {
		t.Errorf("booked %v, want both tasks", got)
	}
}

// A job that is deleted while it is bound leaves no booking behind.
func TestAJobThatIsDeletedWhileItIsBoundHoldsNothing(t *testing.T) {
	c := newCluster(t)
	c.node("n", two, place.SingleNUMA)
	c.job("gang", "default", 2, "cpu=10 x2")
	o := c.session("allocate")
	for _, name := range []string{"gang-0", "gang-1"} {
		c.terminate(name)
	}
	for _, b := range o.binds {
		if err := c.sched.PreBind(t.Context(), b); err == nil {
			t.Errorf("%s is bound after its deletion", b.TaskInfo.Name)
		}
	}
	if got := c.booked(); len(got) > 0 {
		t.Errorf("booked %v", got)
	}
}
