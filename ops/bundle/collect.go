package bundle

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Options select the content of a bundle.
type Options struct {
	Version, Namespace string
	// Hash replaces the names of nodes, namespaces, pods, workloads and volumes.
	Hash bool
	// LogLines is the number of lines that are read from the end of each log of Tenon's pods; 0 reads no logs.
	LogLines int
	// Programs are the namespaces of Tenon's programs. Logs are read only there: in other namespaces, other users may
	// give Tenon's labels to their pods.
	Programs []string
	// Messages are namespaces whose pods keep the termination messages of their containers. Such a message may be the
	// end of a log.
	Messages []string
	// ConfigMaps are the ConfigMaps with configurations of schedulers, as NAMESPACE/NAME.
	ConfigMaps []string
	// Rights are the SubjectAccessReviews to ask for.
	Rights []authorizationv1.SubjectAccessReviewSpec
	// Texts are other files, such as metrics.
	Texts map[string]string
}

const (
	maxEvents = 5000 // collect reads no further page once it has more
	page      = 500  // objects in one answer
)

// Collect reads a cluster with the rights of cfg; at is the present time. If these rights do not cover a resource, or
// the API server refuses it, Collect records the resource as missing and reads on.
func Collect(ctx context.Context, cfg *rest.Config, at time.Time, o Options) (*Bundle, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 50, 100
	all, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	b := &Bundle{About: About{Kind: "Bundle", At: at.UTC().Truncate(time.Second), Version: o.Version,
		Namespace: o.Namespace, Hashed: o.Hash, Missing: []Missing{}, Rights: []Right{}},
		Lists: map[string][]map[string]any{}, Texts: map[string]string{}}
	for _, r := range Resources() {
		if err := b.collect(ctx, all, r, o); err != nil {
			return nil, err
		}
	}
	http, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	s := server{http, cfg}
	if err := errors.Join(b.askRights(ctx, s, o), b.logs(ctx, s, o), b.readServerVersion(ctx, s)); err != nil {
		return nil, err
	}
	for name, text := range o.Texts {
		b.Texts[name] = text
	}
	return b, b.clean(o)
}

// collect adds the objects of one resource. A refusal by the API server is recorded as missing; only a request
// without an answer, or without a valid login, is an error. If the objects of all namespaces may not be listed, collect
// adds the objects of the user's namespace, where that is permitted.
func (b *Bundle) collect(ctx context.Context, all dynamic.Interface, r Resource, o Options) error {
	if r.Resource == "configmaps" {
		return b.configMaps(ctx, all.Resource(r.GroupVersionResource), r, o)
	}
	items, code, err := b.listed(ctx, all.Resource(r.GroupVersionResource), r, o)
	if err != nil {
		return err
	}
	if code == 0 {
		b.Lists[r.String()] = items
		return nil
	}
	b.miss(r.String(), code)
	if code != http.StatusForbidden || !r.namespaced() || o.Namespace == "" {
		return nil
	}
	items, code, err = b.listed(ctx, all.Resource(r.GroupVersionResource).Namespace(o.Namespace), r, o)
	if err == nil && code == 0 {
		b.Lists[r.String()] = items
		last := &b.Missing[len(b.Missing)-1]
		last.Within = []string{o.Namespace}
	}
	return err
}

// configMaps adds the configurations of schedulers, which it reads by their names: a list has the data of all others.
func (b *Bundle) configMaps(ctx context.Context, from dynamic.NamespaceableResourceInterface, r Resource,
	o Options) error {
	items, refused := []map[string]any{}, 0
	for _, id := range o.ConfigMaps {
		namespace, name, _ := strings.Cut(id, "/")
		one, err := from.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		switch code := statusCode(err); {
		case code == http.StatusNotFound:
		case code != 0 && code != http.StatusUnauthorized:
			refused = code
		case err != nil:
			return fmt.Errorf("get ConfigMap %s: %w", id, err)
		default:
			items = append(items, r.stripped(one.Object, o))
		}
	}
	if refused != 0 {
		b.miss(r.String(), refused)
	}
	if refused == 0 || len(items) > 0 {
		b.Lists[r.String()] = items
	}
	return nil
}

// listed returns the objects of one resource that a bundle keeps. code is the HTTP status of the API server's refusal,
// or 0.
func (b *Bundle) listed(ctx context.Context, from dynamic.ResourceInterface, r Resource, o Options) (
	items []map[string]any, code int, err error) {
	items = []map[string]any{}
	options := metav1.ListOptions{Limit: page}
	if len(r.only) == 1 {
		options.FieldSelector = "metadata.name=" + r.only[0]
	}
	for {
		list, err := from.List(ctx, options)
		if code := statusCode(err); code != 0 && code != http.StatusUnauthorized {
			return nil, code, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("list %s: %w", r.Resource, err)
		}
		for i := range list.Items {
			if r.wants(list.Items[i].Object) {
				items = append(items, r.stripped(list.Items[i].Object, o))
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return items, 0, nil
		}
		if r.Resource == "events" && len(items) > maxEvents {
			b.miss(fmt.Sprintf("%s beyond the first %d", r, len(items)), http.StatusRequestEntityTooLarge)
			return items, 0, nil
		}
	}
}

// miss records a resource that could not be read, with the API server's status code.
func (b *Bundle) miss(what string, code int) {
	b.Missing = append(b.Missing, Missing{Resource: what, Code: code,
		Reason: strings.ReplaceAll(http.StatusText(code), " ", "")})
}

// statusCode returns the HTTP status of the API server's answer; 0 if err is nil or has no answer.
func statusCode(err error) int {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}

// wants reports whether a bundle keeps the object at all; method stripped selects its fields.
func (r Resource) wants(object map[string]any) bool {
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if r.Resource == "events" {
		involved, _ := object["involvedObject"].(map[string]any)
		kind, _ := involved["kind"].(string)
		return kind == "Pod" || kind == "Node" || kind == "NodeLayout" || kind == "LayoutBase"
	}
	return len(r.only) == 0 || slices.Contains(r.only, name)
}

// server sends requests that no typed client sends.
type server struct {
	http *http.Client
	cfg  *rest.Config
}

// do sends a request with a body of JSON, and returns the body and the HTTP status of the answer. A status of failure
// is no error.
func (s server) do(ctx context.Context, method, path string, body []byte) ([]byte, int, error) {
	base, _, err := rest.DefaultServerUrlFor(s.cfg)
	if err != nil {
		return nil, 0, fmt.Errorf("address of the API server: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(base.String(), "/")+path,
		bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := s.http.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxFile))
	return data, answer.StatusCode, err
}

// askRights sends the reviews of o.Rights and adds the answers. If the API server refuses a review, askRights records
// the reviews as missing and sends no others.
func (b *Bundle) askRights(ctx context.Context, s server, o Options) error {
	for _, spec := range o.Rights {
		ask := authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{Kind: "SubjectAccessReview",
			APIVersion: "authorization.k8s.io/v1"}, Spec: spec}
		body, err := json.Marshal(ask)
		if err != nil {
			return fmt.Errorf("ask for rights: %w", err)
		}
		data, code, err := s.do(ctx, http.MethodPost, reviews, body)
		if err != nil {
			return fmt.Errorf("ask for rights: %w", err)
		}
		if code >= http.StatusBadRequest {
			b.miss("authorization.k8s.io_v1_subjectaccessreviews", code)
			return nil
		}
		if err := json.Unmarshal(data, &ask); err != nil {
			return fmt.Errorf("ask for rights: %w", err)
		}
		b.Rights = append(b.Rights, Right{asked(spec), ask.Status.Allowed})
	}
	return nil
}

// asked returns the key under which the answer to a review is stored.
func asked(spec authorizationv1.SubjectAccessReviewSpec) string {
	data, _ := json.Marshal(spec) // strings always encode
	return string(data)
}

// readServerVersion reads the version of the API server, which every user may read.
func (b *Bundle) readServerVersion(ctx context.Context, s server) error {
	data, code, err := s.do(ctx, http.MethodGet, "/version", nil)
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	if code != http.StatusOK {
		b.miss("version", code)
		return nil
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	_ = json.Unmarshal(data, &v) // an unreadable version does no harm: only people read it
	b.Server = v.GitVersion
	return nil
}

// logOf begins the entry in About.Missing for a log that could not be read; the name of the pod follows.
const logOf = "v1_pods/log of "

// logs reads the last o.LogLines lines of the logs of Tenon's programs. A log that cannot be read is recorded as
// missing.
func (b *Bundle) logs(ctx context.Context, s server, o Options) error {
	if o.LogLines == 0 {
		return nil
	}
	for _, pod := range b.Lists["v1_pods"] {
		meta, _ := pod["metadata"].(map[string]any)
		labels, _ := meta["labels"].(map[string]any)
		namespace, _ := meta["namespace"].(string)
		if name, _ := labels["app.kubernetes.io/name"].(string); !strings.HasPrefix(name, "tenon-") ||
			!slices.Contains(o.Programs, namespace) {
			continue
		}
		at := fmt.Sprintf("/api/v1/namespaces/%v/pods/%v/log?tailLines=%d", meta["namespace"], meta["name"], o.LogLines)
		text, code, err := s.do(ctx, http.MethodGet, at, nil)
		if err != nil {
			return fmt.Errorf("read the log of pod %v/%v: %w", meta["namespace"], meta["name"], err)
		}
		if code != http.StatusOK {
			b.miss(fmt.Sprintf("%s%v/%v", logOf, meta["namespace"], meta["name"]), code)
		} else {
			b.Texts[fmt.Sprintf("logs/%v_%v.txt", meta["namespace"], meta["name"])] = string(text)
		}
	}
	return nil
}

// clean removes credentials from objects and texts. With o.Hash it also replaces names by hashes.
func (b *Bundle) clean(o Options) error {
	clean := redact
	if o.Hash {
		key := make([]byte, keyBytes)
		if _, err := rand.Read(key); err != nil {
			return fmt.Errorf("make a key: %w", err)
		}
		n := newHasher(key, b.Lists)
		n.add(o.Namespace, false)
		clean = func(s string) string { return n.replace(redact(s)) }
		b.Namespace = clean(b.Namespace)
	}
	for resource, list := range b.Lists {
		if strings.HasPrefix(resource, "apiextensions") || strings.HasPrefix(resource, "admission") {
			continue // these objects come from Tenon's manifests: they have no names of the cluster
		}
		for i := range list {
			texts(list[i], clean)
		}
	}
	for i, m := range b.Missing {
		for k, namespace := range m.Within {
			m.Within[k] = clean(namespace)
		}
		if strings.HasPrefix(m.Resource, logOf) {
			b.Missing[i].Resource = clean(m.Resource)
		}
	}
	cleaned := map[string]string{}
	for name, text := range b.Texts {
		cleaned[clean(name)] = clean(text)
	}
	b.Texts = cleaned
	return nil
}

const keyBytes = 32 // length of the key of hashes
