package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// A task that freezes the page for 150 ms is measured: the benchmark cannot report a frozen page as a quick one.
func TestALongTaskIsMeasured(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("no chromium: run go run ./test packages")
	}
	const frozen = 150 * time.Millisecond
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "<!doctype html><title>long task</title>")
	}))
	defer site.Close()
	b, err := launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	task := fmt.Sprintf(`new Promise((done) => setTimeout(() => {
		const end = performance.now() + %d;
		while (performance.now() < end);
		done(true);
	}))`, frozen.Milliseconds())
	if err := b.do(chromedp.Navigate(site.URL), chromedp.Evaluate("bench.longest = 0", nil), b.until(task)); err != nil {
		t.Fatal(err)
	}
	found, err := b.longest()
	if err != nil || found < frozen {
		t.Errorf("the longest task took %s (%v), want at least %s", found, err, frozen)
	}
}
