package schedulers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
)

// Get returns the scheduler with an id; "" selects the only one. If there is no such scheduler, it returns an error
// of the Kubernetes API: BadRequest if there are others, Forbidden if they may not be read, and NotFound if there are
// none.
func (c *Client) Get(ctx context.Context, id string) (document.Scheduler, error) {
	all, limits, err := c.List(ctx)
	if err != nil {
		return document.Scheduler{}, err
	}
	var ids []string
	for _, s := range all {
		if s.ID == id || id == "" && len(all) == 1 {
			return s, nil
		}
		ids = append(ids, s.ID)
	}
	switch {
	case len(ids) > 0:
		return document.Scheduler{}, apierrors.NewBadRequest("name the scheduler: want one of " + strings.Join(ids, ", "))
	case len(limits) > 0:
		return document.Scheduler{}, apierrors.NewForbidden(schema.GroupResource{Resource: limits[0].Resource}, id,
			errors.New(limits[0].Reason))
	}
	return document.Scheduler{}, apierrors.NewNotFound(schema.GroupResource{Resource: "schedulers"}, id)
}

// Set changes a scheduler's configuration, records an event about the change, and makes the scheduler read it. It
// returns a Conflict error if the configuration is not the version that change names, or changes meanwhile. A dry run
// writes nothing.
func (c *Client) Set(ctx context.Context, change document.PluginChange) (document.NUMAAware, error) {
	s, err := c.Get(ctx, change.Scheduler)
	if err != nil {
		return document.NUMAAware{}, err
	}
	if change.Version != "" && change.Version != s.Version {
		return document.NUMAAware{}, outdated(s.ID)
	}
	if s.Problem != "" {
		return document.NUMAAware{}, errors.New(s.Problem)
	}
	namespace, name, _ := strings.Cut(s.ID, "/")
	configMaps := c.configMaps.In(namespace)
	m, err := configMaps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return document.NUMAAware{}, fmt.Errorf("get ConfigMap %s: %w", s.ID, err)
	}
	if m.ResourceVersion != s.Version {
		return document.NUMAAware{}, outdated(s.ID)
	}
	conf, err := Parse(s.Text)
	if err != nil {
		return document.NUMAAware{}, err
	}
	text, status := "", ""
	if change.Arguments != nil {
		text, err = conf.SetArguments(change.Profile, change.Arguments)
	} else {
		status = Status(change.On)
		text, err = conf.Set(change.On, change.Profile)
	}
	if err != nil {
		return document.NUMAAware{}, fmt.Errorf("change the configuration of %s: %w", s.ID, err)
	}
	out := document.NUMAAware{Status: status, Scheduler: s.ID, Version: s.Version, DryRun: change.DryRun,
		Changed: text != s.Text, Diff: Diff(s.Text, text)}
	if !out.Changed {
		return out, nil
	}
	m.Data[s.Key] = text
	written, err := configMaps.Update(ctx, m, metav1.UpdateOptions{DryRun: dryRun(change.DryRun)})
	if err != nil {
		return document.NUMAAware{}, fmt.Errorf("update ConfigMap %s: %w", s.ID, err)
	}
	if managed := m.Labels["app.kubernetes.io/managed-by"]; managed == "Helm" {
		out.Warnings = append(out.Warnings, "Helm manages the ConfigMap: change its values as well, or its next upgrade "+
			"undoes the change")
	}
	if change.DryRun {
		return out, nil
	}
	out.Version = written.ResourceVersion
	c.recordEvent(ctx, m, s, &out)
	c.reload(ctx, s, &out)
	return out, nil
}

func outdated(id string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, id,
		errors.New("it has changed meanwhile: read it again"))
}

// Status returns "open" for a plugin that is on, and "close" for one that is off.
func Status(on bool) string {
	if on {
		return "open"
	}
	return "close"
}

func dryRun(yes bool) []string {
	if yes {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// recordEvent records an event about the change, for everybody who may read events in the namespace of the ConfigMap.
// If that fails, it adds a warning to out.
func (c *Client) recordEvent(ctx context.Context, m *v1.ConfigMap, s document.Scheduler, out *document.NUMAAware) {
	now, what := metav1.NewTime(c.now()), fmt.Sprintf("set plugin %s to %s", s.Plugin, out.Status)
	if out.Status == "" {
		what = "changed arguments of plugin " + s.Plugin
	}
	_, err := c.events.In(m.Namespace).Create(ctx, &v1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "tenon-console-", Namespace: m.Namespace},
		InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: m.Namespace, Name: m.Name,
			UID: m.UID, ResourceVersion: out.Version, FieldPath: "data[" + s.Key + "]"},
		Reason: "SchedulingPolicyChanged", Type: v1.EventTypeNormal, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Message: fmt.Sprintf("%.200s %s:\n%.700s", c.user, what, out.Diff),
		Source:  v1.EventSource{Component: "tenon-console"}, ReportingController: "tenon-console",
	}, metav1.CreateOptions{})
	if err != nil {
		out.Warnings = append(out.Warnings, fmt.Sprintf("no event of the change could be written: %.200s", err))
	}
}

// reload makes a scheduler read its configuration, and describes in out what happens. Volcano reads it again by
// itself. A kube-scheduler reads it when it starts, so its Deployment starts new pods before it ends the old ones,
// and the lease passes from one to the next.
func (c *Client) reload(ctx context.Context, s document.Scheduler, out *document.NUMAAware) {
	namespace, name, known := strings.Cut(s.Deployment, "/")
	switch {
	case s.Type == document.Volcano:
		out.Reload = "Volcano reads its configuration again by itself, a minute after the change at the latest"
		return
	case !known:
		out.Reload = "restart the scheduler: it reads its configuration when it starts"
		return
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{"kubectl.kubernetes.io/restartedAt": c.now().UTC().Format(time.RFC3339)}}}}})
	if err == nil {
		_, err = c.deployments.In(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		out.Reload = "restart it: kubectl -n " + namespace + " rollout restart deployment/" + name
		out.Warnings = append(out.Warnings, fmt.Sprintf("the scheduler could not be restarted: %.200s", err))
		return
	}
	out.Reload = "Deployment " + s.Deployment + " replaces its schedulers one after the other; the lease passes on"
}
