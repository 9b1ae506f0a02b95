package server

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/nrt"
)

// selectReports restricts a scheduler to the layouts and NodeResourceTopologies whose labels the selector matches. An
// empty selector changes nothing.
func selectReports(cc *schedconfig.CompletedConfig, selector labels.Selector) error {
	if selector.Empty() {
		return nil
	}
	client, err := dynamic.NewForConfig(cc.KubeConfig)
	if err != nil {
		return fmt.Errorf("make client for layouts of a shard: %w", err)
	}
	cc.DynInformerFactory = &selected{
		others: cc.DynInformerFactory,
		reports: dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, metav1.NamespaceAll,
			func(o *metav1.ListOptions) { o.LabelSelector = selector.String() }),
	}
	return nil
}

// selected is an informer factory that passes the selector to the API server for layouts, LayoutBases and
// NodeResourceTopologies only.
type selected struct {
	reports, others dynamicinformer.DynamicSharedInformerFactory
}

var _ dynamicinformer.DynamicSharedInformerFactory = (*selected)(nil)

func (s *selected) ForResource(r schema.GroupVersionResource) informers.GenericInformer {
	if r == v1alpha1.NodeLayoutResource() || r == v1alpha1.LayoutBaseResource() || slices.Contains(nrt.Resources(), r) {
		return s.reports.ForResource(r)
	}
	return s.others.ForResource(r)
}

func (s *selected) Start(stop <-chan struct{}) {
	s.reports.Start(stop)
	s.others.Start(stop)
}

func (s *selected) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
	out := s.others.WaitForCacheSync(stop)
	for r, ok := range s.reports.WaitForCacheSync(stop) {
		out[r] = ok
	}
	return out
}

func (s *selected) Shutdown() {
	s.reports.Shutdown()
	s.others.Shutdown()
}
