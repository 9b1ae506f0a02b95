package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// This file answers requests from a bundle as the API server did.

const (
	reviews     = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	selfReviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
)

// Config returns a client configuration whose requests the bundle answers.
func (b *Bundle) Config() *rest.Config {
	return &rest.Config{Host: "http://bundle.invalid", Transport: b, QPS: -1}
}

// RoundTrip answers a request.
func (b *Bundle) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(r.Body, maxFile)); err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
		_ = r.Body.Close()
	}
	code, answer := b.answer(r, body)
	data, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("answer %s from the bundle: %w", r.URL.Path, err)
	}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)),
		ContentLength: int64(len(data)), Request: r}, nil
}

// answer returns the HTTP status and the object that answer a request.
func (b *Bundle) answer(r *http.Request, body []byte) (int, any) {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && r.URL.Path == reviews:
		return b.review(body)
	case r.Method == http.MethodPost && r.URL.Path == selfReviews:
		return http.StatusCreated, authorizationv1.SelfSubjectAccessReview{TypeMeta: metav1.TypeMeta{
			Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"}}
	case r.Method != http.MethodGet:
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "a bundle cannot be changed")
	case q.Get("watch") == "true" || q.Get("watch") == "1":
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "a bundle does not change")
	}
	at, ok := parse(r.URL.Path)
	if !ok {
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the bundle does not have "+r.URL.Path)
	}
	items, ok := b.Lists[key(at.resource)]
	for _, m := range b.Missing {
		switch {
		case m.Resource != key(at.resource) || slices.Contains(m.Within, at.namespace) || ok && m.Within == nil:
		case m.Code == http.StatusNotFound:
			return failure(m.Code, metav1.StatusReasonNotFound, "the API server did not have "+at.resource.Resource)
		default:
			// For any other code the answer is Forbidden: Tenon's programs report a forbidden resource as missing, and
			// continue without it.
			return failure(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(
				"who made the bundle could not read %s: %d %s", at.resource.Resource, m.Code, m.Reason))
		}
	}
	if !ok {
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the bundle does not have "+at.resource.Resource)
	}
	if at.name != "" {
		for _, o := range items {
			if text(o, "metadata.name") == at.name && text(o, "metadata.namespace") == at.namespace {
				return http.StatusOK, o
			}
		}
		if slices.ContainsFunc(b.Missing, func(m Missing) bool { return m.Resource == key(at.resource) && m.Within == nil }) {
			return failure(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(
				"who made the bundle could not read all %s", at.resource.Resource))
		}
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found",
			at.resource.GroupResource(), at.name))
	}
	return b.list(at, items, q.Get("fieldSelector"), q.Get("labelSelector"))
}

// place is what a path of the API names: an object, or a list of a resource.
type place struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// parse returns what a path of the API server names; false if it is no path of a list or an object. For a list, name
// is "". For a cluster-scoped resource, and for a list of all namespaces, namespace is "".
func parse(path string) (out place, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		out.resource.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		out.resource.Group, out.resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return out, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		out.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 2 {
		return out, false
	}
	out.resource.Resource = parts[0]
	if len(parts) == 2 {
		out.name = parts[1]
	}
	return out, true
}

// list answers a list request with the items that the selectors match.
func (b *Bundle) list(at place, items []map[string]any, field, label string) (int, any) {
	byField, err := fields.ParseSelector(field)
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	byLabel, err := labels.Parse(label)
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	out := []map[string]any{}
	for _, o := range items {
		if (at.namespace == "" || text(o, "metadata.namespace") == at.namespace) && selected(o, byField) &&
			byLabel.Matches(labelled(o)) {
			out = append(out, o)
		}
	}
	kind := ""
	for _, r := range Resources() {
		if r.GroupVersionResource == at.resource {
			kind = r.Kind
		}
	}
	return http.StatusOK, map[string]any{"apiVersion": at.resource.GroupVersion().String(), "kind": kind + "List",
		"metadata": map[string]any{"resourceVersion": "1"}, "items": out}
}

// selected reports whether an object matches a field selector.
func selected(o map[string]any, by fields.Selector) bool {
	for _, r := range by.Requirements() {
		have := text(o, r.Field)
		if r.Field == "source" { // events have two forms of it
			if have = text(o, "source.component"); have == "" {
				have = text(o, "reportingComponent")
			}
		}
		if equal := have == r.Value; equal != (r.Operator != "!=") {
			return false
		}
	}
	return true
}

func labelled(o map[string]any) labels.Set {
	out := labels.Set{}
	meta, _ := o["metadata"].(map[string]any)
	all, _ := meta["labels"].(map[string]any)
	for name, value := range all {
		out[name], _ = value.(string)
	}
	return out
}

// text returns the string at a path of an object, such as "metadata.name"; "" if there is none.
func text(o map[string]any, path string) string {
	for {
		name, rest, more := strings.Cut(path, ".")
		if !more {
			s, _ := o[name].(string)
			return s
		}
		o, _ = o[name].(map[string]any)
		path = rest
	}
}

// review answers a SubjectAccessReview with the recorded answer to the same review. Without one it answers Forbidden.
func (b *Bundle) review(body []byte) (int, any) {
	var ask authorizationv1.SubjectAccessReview
	if err := json.Unmarshal(body, &ask); err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	for _, r := range b.Rights {
		if r.Asked == asked(ask.Spec) {
			ask.Kind, ask.APIVersion, ask.Status.Allowed = "SubjectAccessReview", "authorization.k8s.io/v1", r.Allowed
			return http.StatusCreated, ask
		}
	}
	return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "the bundle does not say who may do this")
}

func failure(code int, reason metav1.StatusReason, message string) (int, any) {
	return code, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message}
}
