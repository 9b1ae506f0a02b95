package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/ops/bundle"
	"github.com/tenon-numa/tenon/ops/doctor"
	"github.com/tenon-numa/tenon/ops/schedulers"
	"github.com/tenon-numa/tenon/ops/use"
)

// reached is the cluster that a command reads: a real one, or the one in a bundle.
type reached struct {
	cfg       *rest.Config
	namespace string
	at        time.Time // now, or the time at which the bundle was made
	named     []string  // namespaces of pods that the user names; see [cli.Kubeconfig.Named]
}

// reach returns the cluster of a kubeconfig, or the cluster in a bundle if the user gave one. A namespace on the
// command line takes precedence over the namespace of the bundle.
func reach(k cli.Kubeconfig) (reached, error) {
	if k.Bundle() == "" {
		cfg, namespace, err := k.Load()
		return reached{cfg, namespace, time.Now(), k.Named()}, err
	}
	f, err := os.Open(k.Bundle())
	if err != nil {
		return reached{}, fmt.Errorf("open the bundle: %w", err)
	}
	defer func() { _ = f.Close() }()
	b, err := bundle.Read(f)
	if err != nil {
		return reached{}, fmt.Errorf("%s: %w", k.Bundle(), err)
	}
	r := reached{b.Config(), b.Namespace, b.At, k.Named()}
	if k.Namespace() != "" {
		r.namespace = k.Namespace()
	}
	return r, nil
}

// reader returns a reader of the cluster as it was at r.at.
func (r reached) reader() (*kube.Reader, error) {
	reader, err := kube.NewReader(r.cfg)
	if err == nil {
		reader.At(r.at)
		reader.Within(append(slices.Clone(r.named), r.namespace)...)
	}
	return reader, err
}

// maxScraped bounds the number of agents whose metrics a bundle has.
const maxScraped = 20

// writeBundle returns the function that collects a bundle and writes it to w. A resource that cannot be read is
// listed in the result and is no error.
func writeBundle(version string) cli.Bundler {
	return func(ctx context.Context, k cli.Kubeconfig, o cli.BundleOptions, w io.Writer) (cli.BundleContent, error) {
		var out cli.BundleContent
		cfg, namespace, err := k.Load()
		if err != nil {
			return out, err
		}
		options := bundle.Options{Version: version, Namespace: namespace, Hash: o.Hash, LogLines: o.LogLines,
			Messages: o.Messages}
		for _, namespace := range []string{o.AgentNamespace, o.SystemNamespace} {
			if namespace != "" {
				options.Programs = append(options.Programs, namespace)
			}
		}
		if options.ConfigMaps, out.Missing, err = configurations(ctx, cfg); err != nil {
			return out, err
		}
		if options.Rights, err = reviews(); err != nil {
			return out, err
		}
		texts, unread, err := agentMetrics(ctx, cfg, o.AgentNamespace)
		if err != nil {
			return out, err
		}
		options.Texts, out.Missing = texts, append(out.Missing, unread...)
		b, err := bundle.Collect(ctx, cfg, time.Now(), options)
		if err != nil {
			return out, err
		}
		if !essential(b) {
			return out, errors.New("you may read neither nodes nor layouts nor pods, so that a bundle would say nothing of " +
				"the cluster; the roles are in " + document.Docs + "howto/rights.md")
		}
		for _, list := range b.Lists {
			out.Objects += len(list)
		}
		out.Metrics = len(options.Texts)
		out.Logs = len(b.Texts) - out.Metrics
		for _, m := range b.Missing {
			if m.Code != http.StatusNotFound { // not found: the cluster lacks the resource, or the pod is gone
				reason := m.Reason
				if len(m.Within) > 0 {
					reason += ", but for the namespace " + strings.Join(m.Within, ", ")
				}
				out.Missing = append(out.Missing, document.Limit{Resource: m.Resource, Reason: reason})
			}
		}
		return out, b.Write(w)
	}
}

// essential reports whether a bundle has anything by which pods are placed. A list that the API server gave is enough,
// even if it was empty.
func essential(b *bundle.Bundle) bool {
	for _, resource := range []string{"v1_nodes", "v1_pods", "tenon.sh_v1alpha1_nodelayouts"} {
		if b.Lists[resource] != nil {
			return true
		}
	}
	return false
}

// configurations returns the ConfigMaps with configurations of schedulers, as NAMESPACE/NAME, and the resources that
// could not be read to find them.
func configurations(ctx context.Context, cfg *rest.Config) (out []string, unread []document.Limit, err error) {
	c, err := schedulers.New(cfg, "bundle")
	if err != nil {
		return nil, nil, err
	}
	all, limits, err := c.List(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("find the configurations of schedulers: %w", err)
	}
	for _, s := range all {
		out = append(out, s.ID)
	}
	for _, l := range limits {
		unread = append(unread, document.Limit{Resource: "configurations of schedulers: " + l.Resource, Reason: l.Reason})
	}
	return out, unread, nil
}

// reviews returns one access review for each right that Tenon's service accounts need.
func reviews() (out []authorizationv1.SubjectAccessReviewSpec, err error) {
	all, err := doctor.Needed()
	for _, r := range all {
		out = append(out, r.Review())
	}
	return out, err
}

// agentMetrics reads the metrics of up to maxScraped agents. It returns the metrics by the name of their file in the
// bundle, and the agents that it could not read. If namespace is "", it reads nothing.
func agentMetrics(ctx context.Context, cfg *rest.Config, namespace string) (out map[string]string,
	missing []document.Limit, err error) {
	out = map[string]string{}
	if namespace == "" {
		return out, nil, nil
	}
	core, err := objects.NewCore(cfg)
	if err != nil {
		return nil, nil, err
	}
	pods, err := core.Pods.In(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=tenon-agent",
		Limit: maxScraped})
	if err != nil {
		return out, []document.Limit{{Resource: "metrics of agents", Reason: err.Error()}}, nil
	}
	scrape, err := use.Agents(cfg, namespace)
	if err != nil {
		return nil, nil, err
	}
	for i := range pods.Items {
		node := pods.Items[i].Spec.NodeName
		body, err := scrape(ctx, node)
		if err != nil {
			missing = append(missing, document.Limit{Resource: "metrics of the agent of " + node, Reason: err.Error()})
			continue
		}
		var text strings.Builder
		if _, err := io.Copy(&text, io.LimitReader(body, 8<<20)); err == nil {
			out["metrics/"+node+".txt"] = text.String()
		} else {
			missing = append(missing, document.Limit{Resource: "metrics of the agent of " + node, Reason: err.Error()})
		}
		_ = body.Close()
	}
	return out, missing, nil
}
