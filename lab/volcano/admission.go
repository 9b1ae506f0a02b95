package volcano

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"

	"github.com/tenon-numa/tenon/lab/program"
)

// configurations has, by kind, the API resources of webhook configurations.
var configurations = map[string]schema.GroupVersionResource{
	"MutatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "mutatingwebhookconfigurations"},
	"ValidatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingwebhookconfigurations"},
}

// startWebhooks starts Volcano's admission webhooks, and returns when the API server calls them.
func (v *Volcano) startWebhooks(ctx context.Context) error {
	port, err := program.FreePort()
	if err != nil {
		return err
	}
	// The first certificate belongs to the server, the second one to the CA that signed it.
	certificate, key, err := cert.GenerateSelfSignedCertKey(program.Host, []net.IP{net.ParseIP(program.Host)}, nil)
	if err != nil {
		return fmt.Errorf("make a certificate for webhooks: %w", err)
	}
	files := []string{filepath.Join(v.Dir, "volcano-webhooks.crt"), filepath.Join(v.Dir, "volcano-webhooks.key")}
	for i, text := range [][]byte{certificate, key} {
		if err := os.WriteFile(files[i], text, 0o600); err != nil {
			return fmt.Errorf("write a certificate for webhooks: %w", err)
		}
	}
	paths, err := v.configure(ctx, fmt.Sprintf("https://%s:%d", program.Host, port), certificate)
	if err != nil {
		return err
	}
	err = v.run("webhooks", webhooks, "--tls-cert-file="+files[0], "--tls-private-key-file="+files[1],
		"--ca-cert-file="+files[0], "--listen-address="+program.Host, fmt.Sprint("--port=", port),
		"--webhook-namespace="+namespace, "--webhook-service-name=volcano-admission-service",
		"--enabled-admission="+strings.Join(paths, ","), "--kube-api-qps=1000", "--kube-api-burst=1000")
	if err != nil {
		return err
	}
	if err := until(ctx, v.Err, func() error { return v.checkWebhook(ctx) }); err != nil {
		return fmt.Errorf("wait for Volcano's webhooks: %w", err)
	}
	return nil
}

// configure creates the manifest's webhook configurations, with a URL instead of a Service: the lab's API server
// reaches no Services. It returns the paths that they call.
func (v *Volcano) configure(ctx context.Context, url string, ca []byte) (paths []string, err error) {
	objects, err := v.Programs.objects("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		if err != nil {
			return nil, fmt.Errorf("read Volcano's manifest: %s: %w", o.GetName(), err)
		}
		for _, h := range hooks {
			hook, ok := h.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("read Volcano's manifest: %s has a webhook that is no object", o.GetName())
			}
			path, found, _ := unstructured.NestedString(hook, "clientConfig", "service", "path")
			if !found {
				return nil, fmt.Errorf("read Volcano's manifest: a webhook of %s has no path", o.GetName())
			}
			hook["clientConfig"] = map[string]any{"url": url + path, "caBundle": base64.StdEncoding.EncodeToString(ca)}
			paths = append(paths, path)
		}
		o.Object["webhooks"] = hooks
		_, err = v.client.dynamic.Resource(configurations[o.GetKind()]).Create(ctx, o, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return paths, nil
}

// errNoWebhook means that the API server accepted an invalid job, because it does not call Volcano's webhook yet.
var errNoWebhook = errors.New("the API server accepts a job that needs more tasks than it has")

// checkWebhook sends, as a dry run, a job that needs more tasks than it has. It returns nil if Volcano's webhook
// rejects the job.
func (v *Volcano) checkWebhook(ctx context.Context) error {
	task := map[string]any{"name": "t", "replicas": int64(1), "template": map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": "c", "image": "lab.invalid/c:1"}}}}}
	invalid := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
		"metadata": map[string]any{"name": "invalid", "namespace": metav1.NamespaceDefault},
		"spec":     map[string]any{"minAvailable": int64(2), "tasks": []any{task}}}}
	_, err := v.client.dynamic.Resource(Jobs).Namespace(metav1.NamespaceDefault).Create(ctx, invalid,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return errNoWebhook
	case strings.Contains(err.Error(), `"validatejob.volcano.sh" denied the request`):
		return nil
	}
	return err
}
