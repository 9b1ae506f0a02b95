package install_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/test/vm/guest"
	"github.com/tenon-numa/tenon/test/vm/realnode"
)

// nodeName is the node in the pages.
const nodeName = "node-a"

// older is the version of the images and the chart.
const older = "0.0.0-one"

// world is a cluster of one real node, without any part of Tenon.
type world struct {
	dir    string // for written files
	root   string // of the repository
	tools  string // programs of an administrator
	plane  *control.Plane
	client kubernetes.Interface
	node   *realnode.Node
	pods   *workload.Watch
	shell  *shell
	played map[string]bool // commands that ran, as text
}

// start boots the node on a machine of testdata.
func start(ctx context.Context, t *testing.T, machine string) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), played: map[string]bool{}}
	redirectLogs(t, filepath.Join(w.dir, "kubernetes.log"))
	say := func(line string) { t.Log(line) }
	onAMD64(t)
	disk, err := realnode.BuildDisk(ctx, w.dir, say)
	if missing := (*guest.MissingError)(nil); errors.As(err, &missing) && os.Getenv("CI") == "" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	if w.root, err = realnode.Root(ctx); err != nil {
		t.Fatal(err)
	}
	if w.tools, err = realnode.BuildTools(ctx, say); err != nil {
		t.Fatal(err)
	}
	w.release(ctx, t)
	w.control(ctx, t, control.Options{})
	plain, err := scheduler.Start(w.dir, w.plane.Kubeconfig, scheduler.Plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, plain.Stop)
	w.boot(ctx, t, disk, machine, say)
	if w.pods, err = workload.Follow(ctx, w.client); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pods.Stop)
	return w
}

// onAMD64 skips a test on computers for which the programs of a node cannot be built.
func onAMD64(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "amd64" && os.Getenv("CI") == "" {
		t.Skip("the programs of a node are built for amd64")
	}
}

func cleanup(t *testing.T, stop func() error) {
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// release makes the images for the node's platform, and the chart, like "make images chart".
func (w *world) release(ctx context.Context, t *testing.T) {
	t.Helper()
	w.make(ctx, t, "images", "-platforms", "linux/amd64")
	w.make(ctx, t, "package")
}

// make makes a part of the older release, in dist.
func (w *world) make(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	dist := filepath.Join(w.dir, "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(w.root, "tools", "release", "run"),
		append(args, "-version", older, "-out", dist)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Logf("%s\n%s", strings.Join(cmd.Args[1:], " "), out)
}

// control starts etcd, the API server and the controllers.
func (w *world) control(ctx context.Context, t *testing.T, o control.Options) {
	t.Helper()
	key, ca := w.authority(t)
	var err error
	o.Dir, o.Nodes, o.Controllers, o.ClientCA = w.dir, []string{nodeName}, true, ca
	if o.Kubelets.Egress != "" {
		o.Kubelets.Certificate, o.Kubelets.Key = w.kubeletClient(t, key, ca)
	}
	w.plane, err = control.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, w.plane.Stop)
	w.client = kubernetes.NewForConfigOrDie(w.plane.Admin)
	roots := w.roots(t, ca)
	log, err := os.Create(filepath.Join(w.dir, "controllers.log"))
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, log.Close)
	cmd := exec.Command(filepath.Join(w.tools, "kube-controller-manager"), "--kubeconfig="+w.plane.Kubeconfig,
		"--secure-port=0", "--leader-elect=false", "--use-service-account-credentials", "--allocate-node-cidrs=false",
		"--service-account-private-key-file="+filepath.Join(w.dir, control.ServiceAccountKey), "--root-ca-file="+roots,
		"--cluster-signing-cert-file="+ca, "--cluster-signing-key-file="+key, "--kube-api-qps=200", "--kube-api-burst=400")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel sends that signal when the thread ends that started the child.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Kill(), <-ended); t.Failed() {
			t.Logf("controllers: %v\n%s", err, tail(log.Name(), 15))
		}
	})
	w.shell = w.newShell(t)
}

// authority makes the certificate authority that signs for kubelets.
func (w *world) authority(t *testing.T) (keyFile, caFile string) {
	t.Helper()
	secret, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyutil.ParsePrivateKeyPEM(secret)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := selfSigned(key)
	if err != nil {
		t.Fatal(err)
	}
	keyFile, caFile = filepath.Join(w.dir, "ca.key"), filepath.Join(w.dir, "ca.crt")
	if err := errors.Join(os.WriteFile(keyFile, secret, 0o600), os.WriteFile(caFile, certificate, 0o600)); err != nil {
		t.Fatal(err)
	}
	return keyFile, caFile
}

// kubeletClient makes the certificate by which kubelets know the API server.
func (w *world) kubeletClient(t *testing.T, caKey, ca string) (certificate, key string) {
	t.Helper()
	signer, err := tls.LoadX509KeyPair(ca, caKey)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	own, err := keyutil.ParsePrivateKeyPEM(secret)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		Subject:     pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.Leaf, own.(crypto.Signer).Public(), signer.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(w.dir, "kubelet-client.crt"), filepath.Join(w.dir, "kubelet-client.key")
	text := pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
	if err := errors.Join(os.WriteFile(certificate, text, 0o600), os.WriteFile(key, secret, 0o600)); err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// roots writes the certificates that pods trust: of the CA for kubelets, and of the API server.
func (w *world) roots(t *testing.T, ca string) string {
	t.Helper()
	data, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.dir, "roots.crt")
	if err := os.WriteFile(file, append(data, w.plane.Admin.CAData...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func selfSigned(key any) ([]byte, error) {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T does not sign", key)
	}
	c, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "kubernetes"}, signer)
	if err != nil {
		return nil, err
	}
	return cert.EncodeCertificates(c)
}

// boot boots the node, and approves the certificate that its kubelet requests.
func (w *world) boot(ctx context.Context, t *testing.T, disk *realnode.Disk, name string, say func(string)) {
	t.Helper()
	machine, err := machines.Read(os.DirFS("testdata"), name)
	if err != nil {
		t.Fatal(err)
	}
	access, err := w.plane.Node(nodeName)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]guest.File{}
	for _, image := range []string{"tenon-agent.tar", "tenon-scheduler.tar"} {
		files["/root/"+image] = guest.File{Host: filepath.Join(w.dir, "dist", "images", image), Mode: 0o644}
	}
	w.node, err = realnode.Start(ctx, realnode.Config{Name: nodeName, Machine: machine, Disk: disk, Kubelet: access,
		Admin: w.plane.Admin, Files: files, SignedByCluster: true, Progress: say, Dir: w.dir})
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, func() error {
		if t.Failed() {
			w.explain(t)
		}
		return w.node.Stop()
	})
}

// explain logs the last output of the node's programs, and the state of the cluster.
func (w *world) explain(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	t.Log(w.node.Log(ctx, "kubelet", 15))
	t.Log(w.node.Run(ctx, "cd /var/log/pods && for f in */*/*.log; do echo $f; head -n 8 $f; tail -n 8 $f; done; df -h /"))
	for _, line := range []string{"kubectl get pods -A -o wide",
		"kubectl get events -A --sort-by=.lastTimestamp | tail -n 30"} {
		out, err := w.shell.run(ctx, line)
		t.Logf("%s: %v\n%s", line, err, out)
	}
}

// redirectLogs sends the log of Kubernetes' libraries in this process to a file.
func redirectLogs(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, f.Close)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(f)
}

// tail returns the last lines of a file.
func tail(file string, n int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
