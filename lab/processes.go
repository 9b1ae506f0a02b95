package lab

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tenon-numa/tenon/lab/releases"
)

// processes are the child processes that run the nodes: with [Config.Apart] one for each node, otherwise one for all
// nodes of a release.
type processes struct {
	mu     sync.Mutex
	byNode map[string]*child
	all    []*child // each process once
	// failed are the processes that ended by themselves and were not replaced, in the order of their ends.
	failed []*child
	close  func()        // closes ended, once
	ended  chan struct{} // closed when a process ended by itself, and by stop
}

func newProcesses() *processes {
	w := &processes{byNode: map[string]*child{}, ended: make(chan struct{})}
	w.close = sync.OnceFunc(func() { close(w.ended) })
	return w
}

// startNodes starts the processes of the nodes.
func (c *Cluster) startNodes() error {
	nodes := map[string][]Node{}
	for _, n := range c.Nodes {
		if c.apart(n) {
			if err := c.startProcess(n); err != nil {
				return err
			}
			continue
		}
		nodes[n.Release] = append(nodes[n.Release], n)
	}
	for _, release := range slices.Sorted(maps.Keys(nodes)) {
		if err := c.startProcess(nodes[release]...); err != nil {
			return err
		}
	}
	return nil
}

// apart reports whether a node has a process of its own.
func (c *Cluster) apart(n Node) bool { return c.cfg.Apart || n.Apart }

// program returns the file of the lab's program for a release; "" means this program's own. It fails if
// [Config.Programs] lacks the release.
func (c *Cluster) program(release string) (string, error) {
	if release == "" || c.cfg.Programs[release] == "" && release == releases.Own() {
		exe, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find this program: %w", err)
		}
		return exe, nil
	}
	if file := c.cfg.Programs[release]; file != "" {
		return file, nil
	}
	return "", fmt.Errorf("there is no program for kubelets of Kubernetes %s", release)
}

// startProcess starts one process that runs the nodes, all of one release.
func (c *Cluster) startProcess(nodes ...Node) error {
	job, err := newJob(c, nodes, c.described, c.cfg)
	if err != nil {
		return err
	}
	log, release := "kubelets.log", nodes[0].Release
	switch { // one log for each process
	case c.apart(nodes[0]):
		log = "kubelet-" + nodes[0].Name + ".log"
	case release != "":
		log = "kubelets-" + release + ".log"
	}
	program, err := c.program(release)
	if err != nil {
		return err
	}
	p, err := startChild(program, job, filepath.Join(c.Dir, log))
	if err != nil {
		return err
	}
	c.processes.add(p, names(nodes))
	return nil
}

// add records that p runs the nodes from now on, and watches p.
func (w *processes) add(p *child, nodes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range nodes {
		old := w.byNode[n]
		w.failed = slices.DeleteFunc(w.failed, func(c *child) bool { return c == old })
		w.byNode[n] = p
	}
	w.all = append(w.all, p)
	go w.watch(p)
}

// watch waits until p ends, and records p as failed unless it was stopped.
func (w *processes) watch(p *child) {
	<-p.done
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.all {
		if other == p {
			w.all = append(w.all[:i:i], w.all[i+1:]...)
			break
		}
	}
	if p.failure() != nil {
		w.failed = append(w.failed, p)
		w.close()
	}
}

// child returns the process that runs a node.
func (w *processes) child(node string) (*child, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.byNode[node]
	if !ok {
		return nil, fmt.Errorf("the cluster has no node %q", node)
	}
	return p, nil
}

// failure returns why processes ended by themselves, or nil if there is none that was not replaced.
func (w *processes) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, p := range w.failed {
		errs = append(errs, p.failure())
	}
	return errors.Join(errs...)
}

// stop ends all processes and returns when they are gone.
func (w *processes) stop() error {
	w.mu.Lock()
	all := append([]*child(nil), w.all...)
	w.mu.Unlock()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() { errs[i] = p.stop() })
	}
	wg.Wait()
	w.close()
	return errors.Join(errs...)
}
