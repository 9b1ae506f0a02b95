// Package cycle drives a kube-scheduler through one scheduling cycle after the other: from PreFilter to Reserve, and
// PostFilter if no node fits. It binds no pod.
//
// It is built with two versions of Kubernetes; each version has its own minor.go with the differences. Invariant: the
// measured work is what kube-scheduler does for the pods of a round, without the watch that delivers pods. The
// package refuses pods whose scheduler name is not a profile of the configuration.
package cycle

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/test/bench/wire"
)

// Setup makes a scheduler from options, as a kube-scheduler's command does.
type Setup func(context.Context, *options.Options) (*schedconfig.CompletedConfig, *scheduler.Scheduler, error)

// Main is the program of a contender: it takes a configuration (-config), reads rounds from standard input, and writes
// outcomes to standard output until the input ends.
func Main(setup Setup) {
	config := flag.String("config", "", "file with the KubeSchedulerConfiguration")
	flag.Parse()
	if err := run(*config, setup); err != nil {
		fmt.Fprintln(os.Stderr, "contender:", err)
		os.Exit(1)
	}
}

func run(config string, setup Setup) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opts := options.NewOptions()
	opts.ConfigFile, opts.SecureServing.BindPort = config, 0
	if err := opts.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	cc, sched, err := setup(ctx, opts)
	if err != nil {
		return err
	}
	d, err := start(ctx, cc, sched)
	if err != nil {
		return err
	}
	return d.serve(ctx, os.Stdin, os.Stdout)
}

// driver is a scheduler with filled caches.
type driver struct {
	sched *scheduler.Scheduler
	log   klog.Logger
	held  []held // placed pods, oldest first
}

// held is a placed pod, with the plugins' state of its cycle.
type held struct {
	fw    framework.Framework
	state fwk.CycleState
	pod   *v1.Pod
}

// start fills the caches of a scheduler, as kube-scheduler does before it schedules.
func start(ctx context.Context, cc *schedconfig.CompletedConfig, sched *scheduler.Scheduler) (*driver, error) {
	cc.InformerFactory.Start(ctx.Done())
	cc.DynInformerFactory.Start(ctx.Done())
	cc.InformerFactory.WaitForCacheSync(ctx.Done())
	cc.DynInformerFactory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return nil, fmt.Errorf("fill caches: %w", err)
	}
	return &driver{sched: sched, log: klog.FromContext(ctx)}, nil
}

func (d *driver) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	rounds, outcomes := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var r wire.Round
		if err := rounds.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read round: %w", err)
		}
		o, err := d.round(ctx, r)
		if err != nil {
			return err
		}
		if err := outcomes.Encode(o); err != nil {
			return fmt.Errorf("write outcome: %w", err)
		}
	}
}

// round places the pods of a round, one after the other, and measures that. Afterwards it removes the oldest placed
// pods until r.Keep are left; the removal is not measured.
func (d *driver) round(ctx context.Context, r wire.Round) (o wire.Outcome, err error) {
	for _, p := range r.Pods {
		// A pod that fits nowhere must not start a search for victims, because that search is not compared.
		p.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, from := time.Now(), cpuTime()
	for _, p := range r.Pods {
		where, evaluated, err := d.schedulePod(ctx, p)
		if err != nil {
			return o, err
		}
		o.Places, o.Evaluated = append(o.Places, where), o.Evaluated+evaluated
	}
	o.CPU, o.Wall = cpuTime()-from, int64(time.Since(began))
	runtime.ReadMemStats(&after)
	o.Bytes, o.Allocations = after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	for len(d.held) > max(0, r.Keep) {
		h := d.held[0]
		d.held = d.held[1:]
		h.fw.RunReservePluginsUnreserve(ctx, h.state, h.pod, h.pod.Spec.NodeName)
		if err := d.sched.Cache.ForgetPod(d.log, h.pod); err != nil {
			return o, fmt.Errorf("take pod %s away: %w", h.pod.Name, err)
		}
	}
	if r.Settle {
		debug.FreeOSMemory()
	}
	o.Memory, o.Peak = memory("VmRSS:"), memory("VmHWM:")
	return o, nil
}

// schedulePod runs a pod's scheduling cycle. It returns where the pod was placed, or why not, and how many nodes were
// filtered. A pod that fits nowhere is no error.
func (d *driver) schedulePod(ctx context.Context, pod *v1.Pod) (wire.Place, int, error) {
	where := wire.Place{Pod: pod.Name}
	fw, ok := d.sched.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return where, 0, fmt.Errorf("pod %s is for the scheduler %q, of which there is no profile", pod.Name,
			pod.Spec.SchedulerName)
	}
	enqueue(ctx, d.sched, pod)
	info, err := next(d.sched, d.log)
	if err != nil {
		return where, 0, fmt.Errorf("take pod %s from the queue: %w", pod.Name, err)
	}
	defer d.sched.SchedulingQueue.Done(pod.UID)
	state := framework.NewCycleState()
	result, err := choose(ctx, d.sched, fw, state, info)
	var unfit *framework.FitError
	if errors.As(err, &unfit) {
		fw.RunPostFilterPlugins(ctx, state, pod, unfit.Diagnosis.NodeToStatus)
		where.Why = unfit.Error()
		return where, unfit.Diagnosis.NodeToStatus.Len(), nil
	}
	if err != nil {
		return where, 0, fmt.Errorf("choose a node for pod %s: %w", pod.Name, err)
	}
	assumed := info.DeepCopy().Pod
	assumed.Spec.NodeName = result.SuggestedHost
	if err := d.sched.Cache.AssumePod(d.log, assumed); err != nil {
		return where, 0, fmt.Errorf("assume pod %s: %w", pod.Name, err)
	}
	h := held{fw: fw, state: state, pod: assumed}
	if status := fw.RunReservePluginsReserve(ctx, state, assumed, result.SuggestedHost); !status.IsSuccess() {
		fw.RunReservePluginsUnreserve(ctx, state, assumed, result.SuggestedHost)
		where.Why = status.Message()
		if err := d.sched.Cache.ForgetPod(d.log, assumed); err != nil {
			return where, 0, fmt.Errorf("forget pod %s: %w", pod.Name, err)
		}
		return where, result.EvaluatedNodes, nil
	}
	d.held, where.Node = append(d.held, h), result.SuggestedHost
	return where, result.EvaluatedNodes, nil
}

// snapshot copies the scheduler's cache into the snapshot of nodes that a profile reads.
func snapshot(s *scheduler.Scheduler, fw framework.Framework, log klog.Logger) error {
	nodes, ok := fw.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return fmt.Errorf("nodes of profile %s are in a %T", fw.ProfileName(), fw.SnapshotSharedLister())
	}
	return s.Cache.UpdateSnapshot(log, nodes)
}

// cpuTime returns the CPU time of this process, in nanoseconds.
func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail for the process itself
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// memory returns an amount of memory of this process in bytes, by its name in /proc, or 0 if the kernel does not report
// it.
func memory(name string) int64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), name)
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(kib, 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}
