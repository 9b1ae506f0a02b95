// Package operators runs operators of other projects on a lab cluster, unmodified: Kueue, JobSet and LeaderWorkerSet.
// The programs are built from their modules, at the versions in programs/go.mod. Definitions, rights and webhooks are
// of the manifests in the same modules.
//
// Invariant: an operator has the rights of its own service account and no others, and ends with [Operator.Stop]. The
// package changes a manifest only as far as a program outside of the cluster requires: URLs instead of Services, a
// certificate, addresses on the loopback interface. It imports nothing of the operators, because they need the
// libraries of an older Kubernetes. It does not start clusters.
package operators

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/lab/program"
	"github.com/tenon-numa/tenon/lab/rights"
)

// Names of operators. An operator's objects are in the namespace NAME-system, and their names begin with NAME.
const (
	Kueue           = "kueue"
	JobSet          = "jobset"
	LeaderWorkerSet = "lws"
)

// source is where an operator comes from.
type source struct {
	module, tool string // the module, and its package of the program
	configure    func(config map[string]any)
}

var sources = map[string]source{
	Kueue:           {"sigs.k8s.io/kueue", "sigs.k8s.io/kueue/cmd/kueue", configureKueue},
	JobSet:          {"sigs.k8s.io/jobset", "sigs.k8s.io/jobset", withoutRotation},
	LeaderWorkerSet: {"sigs.k8s.io/lws", "sigs.k8s.io/lws/cmd", withoutRotation},
}

// withoutRotation tells an operator that its certificate is made by others.
func withoutRotation(config map[string]any) {
	config["internalCertManagement"] = map[string]any{"enable": false}
}

// configureKueue turns off the server for pending workloads, which writes into the folder /visibility. The rotation
// of certificates stays on: without it Kueue reads a certificate from a folder below /etc. It finds a valid
// certificate in its Secret, and keeps it.
func configureKueue(config map[string]any) {
	config["featureGates"] = map[string]any{"VisibilityOnDemand": false}
}

// Operator is one operator for one cluster.
type Operator struct {
	name, dir, program string
	pair               pair // of the webhooks
	hooks, health      int  // ports
	objects            []*unstructured.Unstructured
	running            *program.Running
}

// Prepare builds an operator's program and reads its manifest. Keys, configuration and log will be in the folder dir,
// which exists. The working directory must be in a checkout of the repository. The function say receives a line before
// each step that may take minutes.
func Prepare(ctx context.Context, name, dir string, say func(line string)) (*Operator, error) {
	o, err := prepare(ctx, name, dir, say)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	return o, nil
}

func prepare(ctx context.Context, name, dir string, say func(line string)) (*Operator, error) {
	o := &Operator{name: name, dir: dir}
	from, known := sources[name]
	if !known {
		return nil, errors.New("no such operator")
	}
	t, err := newTools(say)
	if err != nil {
		return nil, err
	}
	if o.program, err = t.build(ctx, from.tool); err != nil {
		return nil, err
	}
	manifest, err := t.manifest(ctx, from.module)
	if err != nil {
		return nil, err
	}
	if o.hooks, err = program.FreePort(); err != nil {
		return nil, err
	}
	if o.health, err = program.FreePort(); err != nil {
		return nil, err
	}
	if o.pair, err = newPair(name+"-ca", name+"-webhook-service."+o.namespace()+".svc"); err != nil {
		return nil, err
	}
	if err := o.pair.write(dir); err != nil {
		return nil, err
	}
	if o.objects, err = o.adapt(manifest); err != nil {
		return nil, err
	}
	return o, o.writeConfig(from)
}

func (o *Operator) namespace() string { return o.name + "-system" }

// Start creates the operator's objects and starts its program. It returns when the program is ready and serves its
// webhooks. The cluster must have the definitions. The context bounds the start only.
func (o *Operator) Start(ctx context.Context, administrator *rest.Config) error {
	if err := o.start(ctx, administrator); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", o.name, err), o.Stop())
	}
	return nil
}

func (o *Operator) start(ctx context.Context, administrator *rest.Config) error {
	manifests, err := o.manifests()
	if err != nil {
		return err
	}
	if err := rights.Apply(ctx, administrator, manifests...); err != nil {
		return err
	}
	account := rights.Account{Namespace: o.namespace(), Name: o.name + "-controller-manager"}
	access, err := rights.As(ctx, administrator, account)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(o.dir, "kubeconfig")
	if err := rights.WriteKubeconfig(kubeconfig, account.Name, access); err != nil {
		return err
	}
	cmd := exec.Command(o.program, "--config="+o.configPath(), "--zap-log-level=2", "--kubeconfig="+kubeconfig)
	cmd.Dir = o.dir
	if o.running, err = program.Start(o.name, filepath.Join(o.dir, o.name+".log"), cmd); err != nil {
		return err
	}
	return o.awaitReady(ctx)
}

// poll is the interval at which awaitReady asks.
const poll = 50 * time.Millisecond

// awaitReady waits until the program reports that it is ready, and accepts connections for webhooks.
func (o *Operator) awaitReady(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		last = o.ready(ctx)
		return last == nil, o.Err()
	})
	if err != nil {
		return errors.Join(fmt.Errorf("wait until %s is ready: %w", o.name, err), last)
	}
	return nil
}

// Err returns why the program ended by itself, with the end of its log, or nil.
func (o *Operator) Err() error {
	if o.running == nil {
		return nil
	}
	return o.running.Err()
}

// Stop ends the program. Without it the API server refuses objects that the operator's webhooks judge.
func (o *Operator) Stop() error {
	if o.running == nil {
		return nil
	}
	return o.running.Stop()
}

// address returns a port of [program.Host] as programs take it.
func address(port int) string { return net.JoinHostPort(program.Host, strconv.Itoa(port)) }
