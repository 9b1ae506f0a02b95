//go:build picture

package console_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var folder = flag.String("pictures", pictures, "folder for the pictures of the README")

// TestPictures makes the pictures of the README: console.png is a small cluster with pods of several sizes, and
// console-node.png a node of it. It tests nothing, so it has a build tag of its own.
func TestPictures(t *testing.T) {
	b, c := open(t), start(t, "5xxeon-2s,2xepyc-nps4,2xxeon-snc2,2xgpu-8,sparse")
	b.do("open the console", chromedp.EmulateViewport(1280, 800), chromedp.Navigate(c.address))
	b.says(".numbers", "12 nodes")
	const trainers, workers = 7, 44
	for i := range trainers {
		train(b, c, fmt.Sprintf("trainer-%d", i), []string{"16", "8", "24", "12"}[i%4], []int64{1, 2, 1}[i%3])
	}
	for i := range workers {
		name := fmt.Sprintf("worker-%02d", i)
		create(b, c, name, []string{"4", "12", "24", "8", "36"}[i%5])
		placed(t, c, name)
	}
	create(b, c, "too-large", "300")
	b.says("#waiting", "too-large")
	b.says("#waiting", "wants 300")
	b.says(".numbers", "1 waiting")
	b.photograph("console.png", "#waiting")
	on := placed(t, c, "trainer-0")
	goTo(b, "#/nodes/"+on, on)
	b.says("#holds td", "trainer-0")
	b.photograph("console-node.png", "#holds")
}

// train creates a pod with GPUs and a network port for each, and waits until it has a node.
func train(b browser, c cluster, name, cpus string, gpus int64) {
	b.t.Helper()
	p := pod(name, cpus)
	amounts := p.Spec.Containers[0].Resources.Limits
	amounts[corev1.ResourceMemory] = resource.MustParse("96Gi")
	amounts["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	amounts["rdma/hca"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	if _, err := c.client.CoreV1().Pods("default").Create(b.t.Context(), p, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	placed(b.t, c, name)
}

// photograph takes a picture of the page from its top to the end of an element, so that nothing is cut in half.
func (b browser) photograph(name, last string) {
	b.t.Helper()
	var height float64
	var png []byte
	b.do("photograph "+name, painted(), chromedp.Evaluate(`document.querySelector(`+quoted(last)+
		`).getBoundingClientRect().bottom + scrollY + 16`, &height), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		clip := &page.Viewport{Width: 1280, Height: height, Scale: 1}
		png, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithClip(clip).Do(ctx)
		return err
	}))
	if err := os.MkdirAll(*folder, 0o750); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*folder, name), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
