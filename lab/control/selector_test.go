package control_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/rights"
)

// A real API server, with the configuration of deploy/apiserver, lets an agent read only the pods of its own node, and
// does not restrict other clients.
func TestAgentsReadTheirOwnPodsOnly(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	config := copied(t, dir, "authorization.yaml", "/etc/kubernetes", dir)
	copied(t, dir, "nobody.kubeconfig", "", "")
	p, err := control.Start(ctx, control.Options{Dir: t.TempDir(), Manifests: deploy.Access(), Authorization: config,
		Nodes: []string{"own", "other"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	admin := kubernetes.NewForConfigOrDie(p.Admin)
	for _, name := range []string{"own", "other"} {
		if _, err := admin.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	as := func(node string) kubernetes.Interface {
		access, err := rights.As(ctx, p.Admin, rights.Account{Namespace: deploy.AgentNamespace,
			Name: deploy.Agent, Node: node})
		if err != nil {
			t.Fatal(err)
		}
		return kubernetes.NewForConfigOrDie(access)
	}
	agent, nowhere := as("own"), as("")
	for _, c := range []struct {
		what, selector string
		who            kubernetes.Interface
		want           bool
	}{
		{"an agent, its node's", "spec.nodeName=own", agent, true},
		{"an agent, its node's running", "spec.nodeName=own,status.phase=Running", agent, true},
		{"an agent, another node's", "spec.nodeName=other", agent, false},
		{"an agent, all but its node's", "spec.nodeName!=own", agent, false},
		{"an agent, all", "", agent, false},
		{"an agent, by another field", "metadata.name=own", agent, false},
		{"an agent whose token names no node", "spec.nodeName=own", nowhere, false},
		{"an administrator, all", "", admin, true},
	} {
		for verb, ask := range map[string]func(string) error{
			"list": func(namespace string) error {
				_, err := c.who.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: c.selector})
				return err
			},
			"watch": func(namespace string) error {
				w, err := c.who.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: c.selector})
				if err == nil {
					w.Stop()
				}
				return err
			},
		} {
			for _, namespace := range []string{"", "default"} {
				err := ask(namespace)
				// If an authorizer fails, the request is answered with an internal error that has the authorizer's
				// message.
				denied := apierrors.IsInternalError(err) && strings.Contains(err.Error(), "the pods of its own node only")
				if c.want && err != nil || !c.want && !denied {
					t.Errorf("%s: %s in namespace %q: %v", c.what, verb, namespace, err)
				}
			}
		}
	}
	if _, err := agent.CoreV1().Nodes().Get(ctx, "own", metav1.GetOptions{}); err != nil {
		t.Errorf("an agent cannot read its Node: %v", err)
	}
}

// copied copies a file of deploy/apiserver, with one text replaced, and returns its path.
func copied(t *testing.T, dir, name, old, new string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../deploy/apiserver", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if old != "" {
		text = strings.ReplaceAll(text, old, new)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
