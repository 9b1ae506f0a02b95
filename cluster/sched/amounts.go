package sched

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
)

// amounts knows the plain amounts of nodes as they are now. kube-scheduler looks at them when it chooses a
// node; a pod that waits for its turn after that may find that somebody else bound pods meanwhile.
type amounts struct {
	nodes corelisters.NodeLister
	pods  cache.Indexer
}

const byNode = "tenon.sh/node"

// newAmounts has pods indexed by their node; it must be called before the informers are started.
func newAmounts(f informers.SharedInformerFactory) (*amounts, error) {
	pods := f.Core().V1().Pods().Informer()
	err := pods.AddIndexers(cache.Indexers{byNode: func(o any) ([]string, error) {
		if p, ok := o.(*v1.Pod); ok && p.Spec.NodeName != "" {
			return []string{p.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index pods by node: %w", err)
	}
	return &amounts{nodes: f.Core().V1().Nodes().Lister(), pods: pods.GetIndexer()}, nil
}

// on returns the pods that are bound to a node as far as the informer knows.
func (a *amounts) on(node string) (out []*v1.Pod) {
	if a == nil {
		return nil
	}
	pods, err := a.pods.ByIndex(byNode, node)
	if err != nil {
		return nil
	}
	for _, o := range pods {
		if p, ok := o.(*v1.Pod); ok {
			out = append(out, p)
		}
	}
	return out
}

// short says what a node has too little of for a pod beside those that are bound to it and those of the others that are
// not bound as far as the informer knows, or "". What is not in memory is not short of anything: the kubelet will tell.
func (a *amounts) short(pod *v1.Pod, node string, more []ledger.PodID) string {
	if a == nil {
		return ""
	}
	n, err := a.nodes.Get(node)
	if err != nil {
		return ""
	}
	bound, err := a.pods.ByIndex(byNode, node)
	if err != nil {
		return ""
	}
	others := make([]*v1.Pod, 0, len(bound)+len(more))
	for _, o := range bound {
		others = append(others, o.(*v1.Pod))
	}
	for _, id := range more {
		o, there, err := a.pods.GetByKey(id.Namespace + "/" + id.Name)
		if p, ok := o.(*v1.Pod); err == nil && there && ok && string(p.UID) == id.UID && p.Spec.NodeName == "" {
			others = append(others, p)
		}
	}
	var out []string
	for _, r := range kube.Lacks(pod, n, others) {
		out = append(out, r.Text())
	}
	return strings.Join(out, ", ")
}
