package console_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// pictures is the folder of screenshots; git ignores it.
const pictures = "pictures"

// axe finds faults of accessibility. It is axe-core 4.10.3, under the Mozilla Public License 2.0 (axe.LICENSE).
//
//go:embed testdata/axe.min.js
var axe string

// browser is a tab of a browser.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func open(t *testing.T) browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil && path == "" {
			path = p
		}
	}
	if path == "" {
		t.Skip("no chromium: run go run ./test packages")
	}
	ctx, err := startBrowser(t, path)
	for n := 1; err != nil && n < starts; n++ {
		t.Logf("start %s: %v", path, err)
		ctx, err = startBrowser(t, path)
	}
	if err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	b := browser{t, ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			t.Errorf("the page: %s", e.ExceptionDetails.Error())
		}
	})
	return b
}

// starts bounds how often a browser is started: on a busy computer it sometimes ends before it listens.
const starts = 3

func startBrowser(t *testing.T, path string) (context.Context, error) {
	// The page is the tests' own and comes from this computer, so a container without user namespaces is enough.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx, chromedp.Run(ctx) // the browser lives as long as the context of the first call
}

// do acts as a person does. Each step must succeed within a minute.
func (b browser) do(what string, actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var text string
		_ = chromedp.Run(b.ctx, chromedp.Text("body", &text, chromedp.ByQuery))
		b.t.Fatalf("%s: %v; the page says:\n%s", what, err, text)
	}
}

// says waits until an element has a text.
func (b browser) says(selector, text string) {
	b.t.Helper()
	// A promise that a reload of the page ends is an error, and is made again in the new page.
	wait := promised(fmt.Sprintf(`new Promise((done) => {
		const look = () => [...document.querySelectorAll(%s)].some((e) => e.innerText.includes(%s)) && (watch.disconnect(), done(true));
		const watch = new MutationObserver(look);
		watch.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
		look();
	})`, quoted(selector), quoted(text)))
	b.do(selector+" says "+text, chromedp.ActionFunc(func(ctx context.Context) error {
		err := wait.Do(ctx)
		for err != nil && ctx.Err() == nil {
			err = wait.Do(ctx)
		}
		return err
	}))
}

// focus puts the focus on an element once it is there, in one step: the page may draw it anew at any time.
func focus(selector string) chromedp.Action {
	return promised(fmt.Sprintf(`new Promise((done) => {
		const look = () => {
			const e = document.querySelector(%s);
			if (!e) return requestAnimationFrame(look);
			e.focus();
			done(true);
		};
		look();
	})`, quoted(selector)))
}

// promised evaluates an expression and waits for its promise.
func promised(expression string) chromedp.Action {
	return chromedp.Evaluate(expression, nil,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) })
}

func quoted(s string) string {
	out, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// looks takes pictures of a page in both themes at three widths, and examines each.
func (b browser) looks(name string) {
	b.t.Helper()
	for _, theme := range []string{"light", "dark"} {
		media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}
		for _, width := range []int64{1280, 390, 2560} {
			b.do("change the window", emulation.SetEmulatedMedia().WithFeatures(media),
				chromedp.EmulateViewport(width, 800), chromedp.Evaluate(`scrollTo(0, 0)`, nil), painted())
			var picture []byte
			var wide bool
			var cut []string
			b.do("photograph "+name, chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &wide),
				chromedp.Evaluate(`[...document.querySelectorAll("main button")].filter((e) => e.checkVisibility() &&
					e.scrollWidth > e.clientWidth).map((e) => e.innerText)`, &cut),
				chromedp.ActionFunc(func(ctx context.Context) (err error) {
					picture, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).Do(ctx)
					return err
				}))
			if wide {
				b.t.Errorf("%s is wider than %d pixels", name, width)
			}
			if len(cut) > 0 {
				b.t.Errorf("%s at %d pixels: buttons are narrower than their texts %q", name, width, cut)
			}
			b.keep(fmt.Sprintf("%s-%d-%s.png", name, width, theme), picture)
			b.examine(fmt.Sprintf("%s at %d pixels, %s", name, width, theme))
		}
	}
	b.do("change the window back", chromedp.EmulateViewport(1280, 800))
}

// painted waits for two frames.
func painted() chromedp.Action {
	return promised(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

func (b browser) keep(name string, picture []byte) {
	b.t.Helper()
	if err := os.MkdirAll(pictures, 0o750); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pictures, name), bytes.Clone(picture), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// examine fails for faults of accessibility that are serious or critical.
func (b browser) examine(what string) {
	b.t.Helper()
	const run = `(async () => {
		const found = await axe.run(document, { resultTypes: ["violations"] });
		return found.violations.filter((v) => ["serious", "critical"].includes(v.impact))
			.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " + n.failureSummary).join(" | "));
	})()`
	var faults []string
	b.do("examine "+what, chromedp.Evaluate(axe, nil), chromedp.Evaluate(run, &faults,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if len(faults) > 0 {
		b.t.Errorf("%s:\n%s", what, strings.Join(faults, "\n"))
	}
}
