package kubelet

import (
	"context"
	"errors"
	"net"
	"reflect"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/lab/releases"
)

// PrepareProcess prepares this process for several kubelets. It sets feature gates, which must not contradict each
// other, and changes state that is global to the process: metrics that are registered twice count tolerant, and names
// are not resolved by DNS. Call it tolerant, before anything else.
func PrepareProcess(configs ...*configv1beta1.KubeletConfiguration) error {
	releases.Set()
	// A kubelet looks up its node's name whenever it reports its status, and no name server has these names.
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("kubelets of described machines do not use DNS")
	}}
	shareMetrics()
	return SetFeatureGates(configs...)
}

// registry has the methods of a Prometheus registry.
type registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// tolerant is a registry that accepts a collector that it already has, and keeps the first. Every kubelet of the
// process registers the same collectors.
type tolerant struct{ registry }

func (o tolerant) Register(c prometheus.Collector) error {
	err := o.registry.Register(c)
	var duplicate prometheus.AlreadyRegisteredError
	if errors.As(err, &duplicate) {
		return nil
	}
	return err
}

func (o tolerant) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		if err := o.Register(c); err != nil {
			panic(err)
		}
	}
}

// shareMetrics wraps Kubernetes' registry, which is accessible only as an embedded field.
func shareMetrics() {
	field := reflect.ValueOf(legacyregistry.DefaultGatherer).Elem().FieldByName("PromRegistry")
	if inner, ok := field.Interface().(registry); ok {
		field.Set(reflect.ValueOf(tolerant{inner}))
	}
	if inner, ok := prometheus.DefaultRegisterer.(registry); ok {
		prometheus.DefaultRegisterer = tolerant{inner}
	}
}
