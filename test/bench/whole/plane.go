package whole

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/rights"
)

// plane is a control plane in a process of its own.
type plane struct {
	process    *process
	admin      *rest.Config
	kubeconfig string // of the administrator
	scheduler  string // kubeconfig with the rights of deploy/scheduler
}

// planeJob is the input of the process.
type planeJob struct {
	Dir        string
	Topologies bool // the API server serves NodeResourceTopology
}

// planeAnswer is the process's message when it is ready.
type planeAnswer struct {
	Host, Token, Admin, Scheduler string
	CA                            []byte
}

// startPlane starts etcd and an API server on the data in a directory, which may be empty.
func startPlane(dir, log string, topologies bool) (*plane, error) {
	cmd, err := ownCommand(rolePlane)
	if err != nil {
		return nil, err
	}
	p, err := startProcess("the control plane", cmd, planeJob{dir, topologies}, log)
	if err != nil {
		return nil, err
	}
	var a planeAnswer
	if err := p.receive(&a); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return &plane{process: p, kubeconfig: a.Admin, scheduler: a.Scheduler,
		admin: &rest.Config{Host: a.Host, BearerToken: a.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
			CAData: a.CA}}}, nil
}

// spentText returns the CPU time of the control plane so far as text for a progress line, or the error's text.
func (p *plane) spentText() string {
	t, err := p.process.cpu()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("control plane: %.0f CPU s", t.Seconds())
}

// runPlane is the main function of the process.
func runPlane(ctx context.Context, in io.Reader, answers *json.Encoder) (err error) {
	var job planeJob
	if err := json.NewDecoder(in).Decode(&job); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	crds := crd.Layouts()
	if job.Topologies {
		crds = append(crds, crd.NodeResourceTopology())
	}
	p, err := control.Start(ctx, control.Options{Dir: job.Dir, Manifests: deploy.Access(), CRDs: crds})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	access, err := rights.As(ctx, p.Admin, rights.Account{Namespace: deploy.Namespace, Name: deploy.Scheduler})
	if err != nil {
		return err
	}
	scheduler := filepath.Join(job.Dir, "scheduler.kubeconfig")
	if err := rights.WriteKubeconfig(scheduler, deploy.Scheduler, access); err != nil {
		return err
	}
	if err := answers.Encode(planeAnswer{Host: p.Admin.Host, Token: p.Admin.BearerToken, CA: p.Admin.CAData,
		Admin: p.Kubeconfig, Scheduler: scheduler}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// ownCommand returns the command of this program in a role.
func ownCommand(role string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	return cmd, nil
}
