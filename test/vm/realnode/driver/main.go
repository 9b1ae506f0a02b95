// Command driver is the driver for claims (DRA) of a real node. It is the driver of Kubernetes' own end-to-end tests:
// the kubelet's plugin helper, ResourceSlices, and CDI files that set an environment variable for each claim.
//
//	driver NAME NODE KUBECONFIG DEVICES   DEVICES has a line "DEVICE NUMA" for each device
//
// It prints "registered" on its standard output once the kubelet knows it. The devices exist only in the slice. Each
// has its NUMA node as resource.kubernetes.io/numaNode. The program refuses files that are no such list.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/kubernetes/test/e2e/dra/test-driver/app"
)

// cdi is a folder in which containerd looks for CDI files by default.
const cdi = "/var/run/cdi"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("want NAME NODE KUBECONFIG DEVICES")
	}
	name, node := args[0], args[1]
	devices, err := read(args[3])
	if err != nil {
		return fmt.Errorf("read devices from %s: %w", args[3], err)
	}
	access, err := clientcmd.BuildConfigFromFlags("", args[2])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	data := filepath.Join(kubeletplugin.KubeletPluginsDir, name)
	for _, dir := range []string{cdi, data} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	p, err := app.StartPlugin(ctx, cdi, name, client, node, app.FileOperations{
		DriverResources: &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
			node: {Slices: []resourceslice.Slice{{Devices: devices}}}}}})
	if err != nil {
		return err
	}
	defer p.Stop()
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		return p.IsRegistered(), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the kubelet: %w", err)
	}
	fmt.Println("registered")
	<-ctx.Done()
	return nil
}

// maxDevices bounds the devices: a slice has no more.
const maxDevices = 128

// read returns the devices of a file.
func read(path string) (out []resourceapi.Device, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			return out, lines.Err()
		}
		var name string
		var numa int64
		if n, _ := fmt.Sscanf(lines.Text(), "%s %d", &name, &numa); n != 2 || numa < 0 || len(out) == maxDevices {
			return nil, fmt.Errorf("line %q: want DEVICE NUMA, %d lines at most", lines.Text(), maxDevices)
		}
		where := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"resource.kubernetes.io/numaNode": {IntValue: &numa}}
		out = append(out, resourceapi.Device{Name: name, Attributes: where})
	}
}
