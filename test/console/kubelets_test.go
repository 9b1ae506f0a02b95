package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/ops/apply"
)

// A change of a kubelet is planned, checked, begun, stopped and gone on with. Nodes of the lab run no containers, so
// the pod that would change the kubelet never begins, and the change remains in that step.
func kubelets(t *testing.T, b browser, c cluster) {
	on := placed(t, c, "encoder")
	b.do("choose the page", chromedp.Click(`//nav/a[text()="Kubelets"]`, chromedp.BySearch))
	b.says("h1", "Kubelets")
	b.do("ask for nothing", chromedp.Click("#plan", chromedp.ByQuery))
	b.says("#result [role=alert]", "says nothing that changes")
	b.do("plan by keys alone", focus("#selector"), chromedp.SendKeys("#selector", "kubernetes.io/hostname="+on),
		chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("best"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.says("#result pre", "+ topologyManagerPolicy: best-effort")
	b.says("#result td", on)
	b.looks("kubelets-plan")
	b.do("check without leave to end pods", chromedp.Click("#check", chromedp.ByQuery))
	b.says(".change [role=alert]", "has no controller")
	b.do("check again", chromedp.Click("#force", chromedp.ByQuery), chromedp.Click("#check", chromedp.ByQuery))
	b.says(".change", "systemctl stop kubelet")
	b.looks("kubelets-begin")
	b.do("begin", chromedp.Click("#begin", chromedp.ByQuery))
	b.says("#rollout h2", "A change goes on")
	b.says("#rollout td", "kubelet is changed")
	b.looks("kubelets-runs")
	b.do("stop", chromedp.Click("#stop", chromedp.ByQuery))
	b.says("#rollout [role=alert]", "stopped by")
	b.do("reload", chromedp.Reload())
	b.says("#rollout h2", "A change has stopped")
	b.looks("kubelets-stopped")
	b.do("go on", chromedp.Click("#again", chromedp.ByQuery))
	b.says("#rollout td", "kubelet is changed")
	b.do("stop again", chromedp.Click("#stop", chromedp.ByQuery))
	b.says("#rollout h2", "A change has stopped")
	n, err := c.client.CoreV1().Nodes().Get(t.Context(), on, metav1.GetOptions{})
	if err != nil || !n.Spec.Unschedulable || n.Annotations[apply.Annotation] == "" {
		t.Errorf("node %s: unschedulable %v, annotations %v, %v", on, n.Spec.Unschedulable, n.Annotations, err)
	}
}
