package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/test/bench/staticapi"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// Numbers of a measurement.
const (
	patience         = 3 * time.Minute // for one step
	changesPerSecond = 200             // changes
	changeTime       = 20 * time.Second
)

// observerScript is the script that runs before the page's own scripts. It records when the page shows its numbers
// and has painted the map, and the duration of the longest task.
const observerScript = `window.bench = { usable: 0, longest: 0 };
bench.note = (all) => { for (const e of all) bench.longest = Math.max(bench.longest, e.duration); };
bench.tasks = new PerformanceObserver((all) => bench.note(all.getEntries()));
bench.tasks.observe({ type: "longtask", buffered: true });
new MutationObserver((_, me) => {
	const b = document.querySelector(".numbers b"), c = document.querySelector("canvas");
	if (!b || Number(b.textContent) === 0 || !c?.width) return;
	me.disconnect();
	requestAnimationFrame(() => setTimeout(() => { bench.usable = performance.now(); }));
}).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });`

// browser is a tab that is signed in.
type browser struct {
	ctx   context.Context
	close func()
	bytes atomic.Int64 // size of all responses on the wire, which means compressed
}

// open starts a browser and signs in; it returns once the server has read the cluster.
func open(ctx context.Context, address string) (*browser, error) {
	b, err := launch(ctx)
	if err != nil {
		return nil, err
	}
	err = chromedp.Run(b.ctx, chromedp.Navigate(address),
		b.until(`fetch("/api/v1/cluster").then((r) => r.json()).then((c) => c.ready)`))
	if err != nil {
		b.close()
		return nil, fmt.Errorf("open the console: %w", err)
	}
	return b, nil
}

// maxStarts bounds the attempts to start a browser: on a busy computer, Chromium sometimes exits before it listens.
const maxStarts = 3

// launch starts a browser that counts the received bytes and records long tasks. It tries up to [maxStarts] times.
func launch(ctx context.Context) (*browser, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("find the browser (go run ./test packages installs it): %w", err)
	}
	b, err := startBrowser(ctx, path)
	for n := 1; err != nil && n < maxStarts && ctx.Err() == nil; n++ {
		b, err = startBrowser(ctx, path)
	}
	return b, err
}

func startBrowser(ctx context.Context, path string) (*browser, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(patience))
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	ctx, cancel := chromedp.NewContext(ctx)
	b := &browser{ctx: ctx, close: func() { cancel(); end() }}
	chromedp.ListenTarget(ctx, func(event any) {
		if e, ok := event.(*network.EventLoadingFinished); ok {
			b.bytes.Add(int64(e.EncodedDataLength))
		}
	})
	err := chromedp.Run(ctx, network.Enable(), chromedp.EmulateViewport(1280, 800),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(observerScript).Do(ctx)
			return err
		}))
	if err != nil {
		b.close()
		return nil, fmt.Errorf("start the browser: %w", err)
	}
	return b, nil
}

// longest returns the duration of the longest task since bench.longest was set to zero, or 0 where none took 50 ms.
func (b *browser) longest() (time.Duration, error) {
	var found float64
	// A browser reports a task some time after the task has ended. Two frames later, the observer has its record.
	err := b.do(chromedp.Evaluate(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => {
		bench.note(bench.tasks.takeRecords()); done(bench.longest); }))))`, &found,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if err != nil {
		return 0, fmt.Errorf("read the longest task: %w", err)
	}
	return milliseconds(found), nil
}

// until returns an action that evaluates a JavaScript expression every 20 ms until it, or its promise, is true.
func (b *browser) until(expression string) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf(`new Promise((done) => {
		const look = async () => ((await %s) ? done(true) : setTimeout(look, 20)); look(); })`, expression), nil,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) })
}

// do runs actions one after the other, for at most [patience] in all.
func (b *browser) do(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeoutCause(b.ctx, patience, errors.New("the page did not get there"))
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// loadFirstPage loads the first page with an empty cache, and measures the time and the bytes until it can be used.
func (b *browser) loadFirstPage(found *Found) error {
	var usable float64
	err := b.do(chromedp.Navigate("about:blank"), network.ClearBrowserCache(), chromedp.ActionFunc(
		func(context.Context) error { b.bytes.Store(0); return nil }), chromedp.NavigateBack(),
		b.until("window.bench?.usable > 0"), chromedp.Evaluate("bench.usable", &usable))
	if err != nil {
		return fmt.Errorf("load the first page: %w", err)
	}
	found.Usable, found.Transferred = milliseconds(usable), b.bytes.Load()
	return nil
}

func milliseconds(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// measureChanges sends changes of the cluster for a while, and creates a pod in between. It measures how long the
// page takes to show the pod, and its longest task.
func (b *browser) measureChanges(ctx context.Context, found *Found, api *staticapi.Server,
	c *synthetic.Cluster) error {
	if err := b.do(chromedp.Evaluate("bench.longest = 0", nil)); err != nil {
		return fmt.Errorf("begin with changes: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	sent := make(chan error, 1)
	began := time.Now()
	go func() { sent <- sendChanges(ctx, api, c, &found.Changes) }()
	time.Sleep(changeTime / 2)
	pod := c.Pods[0].DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Name, pod.UID, pod.Spec.NodeName, pod.ResourceVersion = "new-pod", "new-pod", "", "999999999"
	created := time.Now()
	err := errors.Join(api.Send("pods", "ADDED", pod),
		b.do(b.until(`document.querySelector("#waiting")?.innerText.includes("new-pod")`)))
	found.Appears = time.Since(created)
	if err == nil {
		time.Sleep(time.Until(began.Add(changeTime)))
	}
	cancel()
	err = errors.Join(err, <-sent)
	found.Changes = int(float64(found.Changes) / time.Since(began).Seconds())
	if err != nil {
		return fmt.Errorf("change the cluster: %w", err)
	}
	found.Longest, err = b.longest()
	return err
}

// sendChanges sends a layout of another node at each tick, until ctx ends. The layouts of the first pass over the
// cluster lack the node's first pod, the layouts of the second pass its first two pods, and so on in turn, so that
// each layout is a change. sent counts the layouts.
func sendChanges(ctx context.Context, api *staticapi.Server, c *synthetic.Cluster, sent *int) error {
	tick := time.NewTicker(time.Second / changesPerSecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		node := i * 7 % len(c.States)
		n := c.States[node]
		entries := n.Entries[min(len(n.Entries), i/len(c.States)%2+1):]
		l := c.Difference(node, entries, int64(i+1))
		l.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.Kind}
		l.ResourceVersion, l.Generation = fmt.Sprint(1000+i), 2
		if err := api.Send(v1alpha1.NodeLayoutResource().Resource, "MODIFIED", l); err != nil {
			return err
		}
		*sent++
	}
}

// timeAnswer requests a path of the console's API, and returns how long the answer took. While the server answers
// 503, it repeats the request, and the repetitions count.
func (b *browser) timeAnswer(path string) (time.Duration, error) {
	var took float64
	text, err := json.Marshal("/api/v1" + path)
	if err != nil {
		return 0, fmt.Errorf("encode path %s: %w", path, err)
	}
	err = b.do(chromedp.Evaluate(fmt.Sprintf(`(async () => { const began = performance.now(); let r, body;
		do { r = await fetch(%s); body = await r.arrayBuffer(); } while (r.status === 503);
		if (!r.ok) throw new Error(r.status + " " + new TextDecoder().decode(body));
		return performance.now() - began; })()`, text), &took,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if err != nil {
		return 0, fmt.Errorf("get %s: %w", path, err)
	}
	return milliseconds(took), nil
}
