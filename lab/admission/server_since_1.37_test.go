//go:build !upto1.36

package admission

import (
	"context"
	"errors"
	"flag"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/workload"
)

var asked = flag.Int("odd.asked", 400, "odd pods about which a running API server is asked")

// A running API server is asked by a dry run, as kubectl create --dry-run=server asks: it accepts and refuses the same
// odd pods as the reader of files.
func TestOddPodsAreJudgedAsByARunningAPIServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	plane, err := control.Start(ctx, control.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}()
	clients := kubernetes.NewForConfigOrDie(plane.Admin)
	classes(ctx, t, clients)
	client := clients.CoreV1().RESTClient()
	how := &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	r, seed := drawing(t)
	taken, refused, unjudged := 0, 0, 0
	files, err := stage.Machines(nil)
	if err != nil {
		t.Fatal(err)
	}
	tooMuch := regexp.MustCompile(`is outside 0\.\.|is more than any node has`)
	ofPriority := func(what string) bool { return strings.Contains(what, "of the pod's priority class") }
	for i := range *asked {
		text := oddPod(r)
		err := client.Post().Namespace(metav1.NamespaceDefault).Resource("pods").VersionedParams(how, scheme.ParameterCodec).
			SetHeader("Content-Type", "application/json").Body(text).Do(ctx).Into(&v1.Pod{})
		switch {
		case err == nil:
			taken++
		case errors.As(err, new(apierrors.APIStatus)):
			refused++
		default:
			t.Fatalf("pod %d of seed %d:\n%s\nthe API server gives no answer: %v", i, seed, text, err)
		}
		got, _, mine := files.Workloads(text, metav1.NamespaceDefault)
		ofClass := func(what string) bool {
			return strings.HasPrefix(what, "runtime class ") && strings.Contains(err.Error(), "RuntimeClass")
		}
		if err != nil && mine == nil && (slices.ContainsFunc(got[0].Unjudged, ofPriority) ||
			slices.ContainsFunc(got[0].Unjudged, ofClass)) {
			unjudged++ // it names the pod as not judged
			continue
		}
		if err == nil && mine != nil && tooMuch.MatchString(mine.Error()) {
			continue // no node could take the pod
		}
		if (err == nil) != (mine == nil) {
			t.Errorf("pod %d of seed %d:\n%s\nAPI server: %v\nfile: %v", i, seed, text, err, mine)
		}
	}
	t.Logf("%d taken, %d refused; %d of them are not judged for their priority or class", taken, refused, unjudged)
	if taken < *asked/10 || refused-unjudged < *asked/10 {
		t.Errorf("%d taken, %d refused: the pods are not odd in both ways", taken, refused)
	}
}

// classes creates the PriorityClasses and RuntimeClasses that odd pods name, as far as the API server accepts the
// names. A file of pods does not say which ones a cluster has.
func classes(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	for _, x := range texts {
		meta := metav1.ObjectMeta{Name: x.(string)}
		_, err := client.SchedulingV1().PriorityClasses().Create(ctx,
			&schedulingv1.PriorityClass{ObjectMeta: meta, Value: 1}, metav1.CreateOptions{})
		if apierrors.IsInvalid(err) {
			continue
		}
		if err == nil {
			_, err = client.NodeV1().RuntimeClasses().Create(ctx, &nodev1.RuntimeClass{ObjectMeta: meta, Handler: "h"},
				metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		p := workload.Pod("x", workload.Guaranteed("c", workload.Amounts{"cpu": "1"}))
		p.Spec.PriorityClassName, p.Spec.RuntimeClassName = meta.Name, &meta.Name
		err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, p,
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err == nil, nil // the API server's informers may not have the classes yet
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
