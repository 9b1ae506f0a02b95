package objects_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// recorder answers every request with a pod, or with "no such pod", and records the requests.
type recorder struct {
	mu    sync.Mutex
	asked []string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	r.asked = append(r.asked, fmt.Sprintf("%s %s\naccepts %s\nagent %s\nbody %s %q",
		q.Method, q.URL, q.Header.Get("Accept"), q.UserAgent(), q.Header.Get("Content-Type"), body))
	r.mu.Unlock()
	code, obj := http.StatusOK, runtime.Object(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web",
		UID: "uid-web"}})
	switch {
	case q.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK) // and no events
		return
	case strings.HasSuffix(q.URL.Path, "/pods") && q.Method == http.MethodGet:
		obj = &v1.PodList{Items: []v1.Pod{*obj.(*v1.Pod)}}
	case strings.HasSuffix(q.URL.Path, "/gone"):
		failure := apierrors.NewNotFound(v1.Resource("pods"), "gone").Status()
		code, obj = http.StatusNotFound, &failure
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), protobuf)
	data, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, v1.SchemeGroupVersion), obj)
	if err != nil {
		code = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", protobuf)
	w.WriteHeader(code)
	w.Write(data)
}

// pods has the methods that this package's client and the generated one share.
type pods interface {
	Get(context.Context, string, metav1.GetOptions) (*v1.Pod, error)
	List(context.Context, metav1.ListOptions) (*v1.PodList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Create(context.Context, *v1.Pod, metav1.CreateOptions) (*v1.Pod, error)
	Update(context.Context, *v1.Pod, metav1.UpdateOptions) (*v1.Pod, error)
	UpdateStatus(context.Context, *v1.Pod, metav1.UpdateOptions) (*v1.Pod, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// calls are requests of every kind; each returns its result.
func calls(ctx context.Context, p pods) map[string]func() (any, error) {
	web := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1.PodSpec{NodeName: "a"}}
	seconds := int64(7)
	return map[string]func() (any, error){
		"get": func() (any, error) { return p.Get(ctx, "web", metav1.GetOptions{ResourceVersion: "0"}) },
		"get one that is not there": func() (any, error) {
			_, err := p.Get(ctx, "gone", metav1.GetOptions{})
			return nil, err
		},
		"list": func() (any, error) {
			return p.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=a", TimeoutSeconds: &seconds})
		},
		"watch": func() (any, error) {
			w, err := p.Watch(ctx, metav1.ListOptions{ResourceVersion: "1", AllowWatchBookmarks: true})
			if err == nil {
				w.Stop()
			}
			return nil, err
		},
		"create":        func() (any, error) { return p.Create(ctx, web, metav1.CreateOptions{DryRun: []string{"All"}}) },
		"update":        func() (any, error) { return p.Update(ctx, web, metav1.UpdateOptions{FieldManager: "me"}) },
		"update status": func() (any, error) { return p.UpdateStatus(ctx, web, metav1.UpdateOptions{}) },
		"delete": func() (any, error) {
			return nil, p.Delete(ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: &seconds})
		},
	}
}

// The client sends the same requests as the generated client, byte for byte, and decodes the answers in the same way.
func TestAsksAsGeneratedClientsDo(t *testing.T) {
	server := &recorder{}
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	cfg := &rest.Config{Host: s.URL}
	core, err := objects.NewCore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(cfg, &rest.Config{Host: s.URL}) {
		t.Errorf("the configuration was changed to %+v", cfg)
	}
	cfg.ContentType, cfg.AcceptContentTypes = protobuf, protobuf+",application/json"
	generated, err := corev1.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for namespace, ours := range map[string]pods{"": core.Pods, "team": core.Pods.In("team")} {
		theirs := calls(t.Context(), generated.Pods(namespace))
		for name, call := range calls(t.Context(), ours) {
			server.asked = nil
			got, gotErr := call()
			want, wantErr := theirs[name]()
			if len(server.asked) != 2 || server.asked[0] != server.asked[1] {
				t.Errorf("%s in %q: asked, and by the generated client:\n%s", name, namespace, strings.Join(server.asked, "\n"))
			}
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(gotErr, wantErr) {
				t.Errorf("%s in %q: got %v, %v, want %v, %v", name, namespace, got, gotErr, want, wantErr)
			}
		}
	}
	if _, err := core.Pods.In("team").Get(t.Context(), "gone", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that is not there: error %v", err)
	}
}

func TestPatchAsGeneratedClientsDo(t *testing.T) {
	server := &recorder{}
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	core, err := objects.NewCore(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	generated, err := corev1.NewForConfig(&rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{
		ContentType: protobuf, AcceptContentTypes: protobuf + ",application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	force, data := true, []byte(`{"kind":"Pod"}`)
	o := metav1.PatchOptions{FieldManager: "me", Force: &force}
	got, err := core.Pods.In("team").Patch(t.Context(), "web", types.ApplyPatchType, data, o)
	if err != nil || got.UID != "uid-web" {
		t.Errorf("patched pod has UID %q, error %v", got.UID, err)
	}
	if _, err := generated.Pods("team").Patch(t.Context(), "web", types.ApplyPatchType, data, o); err != nil {
		t.Fatal(err)
	}
	if len(server.asked) != 2 || server.asked[0] != server.asked[1] {
		t.Errorf("asked, and by the generated client:\n%s", strings.Join(server.asked, "\n"))
	}
}

func TestRefusesTypesThatCannotBeRegistered(t *testing.T) {
	_, err := objects.NewGroup(&rest.Config{}, v1.SchemeGroupVersion,
		func(*runtime.Scheme) error { return io.ErrUnexpectedEOF })
	if err == nil || err.Error() != "register the types of v1: unexpected EOF" {
		t.Errorf("error is %v", err)
	}
	if _, err := objects.NewCore(&rest.Config{Host: "::"}); err == nil || !strings.Contains(err.Error(), "for ::") {
		t.Errorf("host is not named: %v", err)
	}
}
