package operators

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/lab/program"
)

// inPods are the kinds of a manifest that run the program in a pod, and make it reachable there.
var inPods = []string{"APIService", "Deployment", "Service"}

// definition is the kind of definitions of kinds.
const definition = "CustomResourceDefinition"

// adapt returns the objects of a manifest for a program outside of the cluster.
func (o *Operator) adapt(manifest []byte) (out []*unstructured.Unstructured, err error) {
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &object.Object); err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		kind := object.GetKind()
		if kind == "" || slices.Contains(inPods, kind) {
			continue
		}
		if err := o.redirect(object); err != nil {
			return nil, fmt.Errorf("read manifest: %s %s: %w", kind, object.GetName(), err)
		}
		out = append(out, object)
	}
}

// redirect makes an object's webhooks, if it has any, call the program by a URL: the lab's API server reaches no
// Services. It fills the Secret of the certificate.
func (o *Operator) redirect(object *unstructured.Unstructured) error {
	switch object.GetKind() {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		hooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil {
			return err
		}
		for _, h := range hooks {
			hook, ok := h.(map[string]any)
			if !ok {
				return errors.New("a webhook is no object")
			}
			if err := o.redirectOne(hook, "clientConfig"); err != nil {
				return err
			}
		}
		object.Object["webhooks"] = hooks
	case definition:
		if _, found, _ := unstructured.NestedMap(object.Object, "spec", "conversion", "webhook"); found {
			return o.redirectOne(object.Object, "spec", "conversion", "webhook", "clientConfig")
		}
	case "Secret":
		data := map[string]any{}
		for name, text := range o.pair.files() {
			data[name] = base64.StdEncoding.EncodeToString(text)
		}
		object.Object["data"] = data
	}
	return nil
}

// redirectOne replaces the Service of one webhook, whose configuration is at the path.
func (o *Operator) redirectOne(object map[string]any, path ...string) error {
	called, found, _ := unstructured.NestedString(object, append(slices.Clone(path), "service", "path")...)
	if !found {
		return errors.New("a webhook has no path")
	}
	return unstructured.SetNestedMap(object, map[string]any{
		"url":      "https://" + address(o.hooks) + called,
		"caBundle": base64.StdEncoding.EncodeToString(o.pair.caCrt)}, path...)
}

// Definitions returns the operator's CustomResourceDefinitions.
func (o *Operator) Definitions() (out [][]byte, err error) {
	return o.documents(func(kind string) bool { return kind == definition })
}

// manifests returns all other objects. Namespaces are the first.
func (o *Operator) manifests() (out [][]byte, err error) {
	spaces, err := o.documents(func(kind string) bool { return kind == "Namespace" })
	if err != nil {
		return nil, err
	}
	rest, err := o.documents(func(kind string) bool { return kind != definition && kind != "Namespace" })
	return slices.Concat(spaces, rest), err
}

// documents returns the objects of the kinds for which want returns true, as one document each.
func (o *Operator) documents(want func(kind string) bool) (out [][]byte, err error) {
	for _, object := range o.objects {
		if !want(object.GetKind()) {
			continue
		}
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("write %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		out = append(out, text)
	}
	return out, nil
}

// configPath is the path of the program's configuration.
func (o *Operator) configPath() string { return filepath.Join(o.dir, o.name+".yaml") }

// writeConfig writes the configuration of the manifest, with addresses and folders for this computer.
func (o *Operator) writeConfig(from source) error {
	config := map[string]any{}
	for _, object := range o.objects {
		text, found, _ := unstructured.NestedString(object.Object, "data", "controller_manager_config.yaml")
		if object.GetKind() != "ConfigMap" || !found {
			continue
		}
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
	}
	if len(config) == 0 {
		return errors.New("the manifest has no configuration")
	}
	config["webhook"] = map[string]any{"host": program.Host, "port": o.hooks, "certDir": o.dir}
	config["health"] = map[string]any{"healthProbeBindAddress": address(o.health)}
	config["metrics"] = map[string]any{"bindAddress": "0"} // no server
	config["leaderElection"] = map[string]any{"leaderElect": false}
	from.configure(config)
	text, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return os.WriteFile(o.configPath(), text, 0o600)
}

// ready returns nil if the program reports that it is ready, and accepts a connection of its webhooks' clients.
func (o *Operator) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address(o.health)+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", request.URL, answer.Status)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(o.pair.caCrt)
	d := tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{RootCAs: trusted}}
	c, err := d.DialContext(ctx, "tcp", address(o.hooks))
	if err != nil {
		return err
	}
	return c.Close()
}
