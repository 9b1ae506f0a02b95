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

// selectReports restricts a scheduler to the layouts and NodeResourceTopologies that a selector matches.
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

// selected is an informer factory that restricts the informers of layouts and NodeResourceTopologies by a selector.
type selected struct {
	reports, others dynamicinformer.DynamicSharedInformerFactory
}

var _ dynamicinformer.DynamicSharedInformerFactory = (*selected)(nil)

func (f *selected) ForResource(r schema.GroupVersionResource) informers.GenericInformer {
	if r == v1alpha1.NodeLayoutResource() || slices.Contains(nrt.Resources(), r) {
		return f.reports.ForResource(r)
	}
	return f.others.ForResource(r)
}

func (f *selected) Start(stop <-chan struct{}) {
	f.reports.Start(stop)
	f.others.Start(stop)
}

func (f *selected) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
	out := f.others.WaitForCacheSync(stop)
	for r, ok := range f.reports.WaitForCacheSync(stop) {
		out[r] = ok
	}
	return out
}

func (f *selected) Shutdown() {
	f.reports.Shutdown()
	f.others.Shutdown()
}
