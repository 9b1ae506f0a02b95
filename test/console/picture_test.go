//go:build picture

package console_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var picture = flag.String("picture", "console.png", "file for the picture of the README")

// TestPicture makes the picture of the README: a small cluster with pods of several sizes. It tests nothing, so it has
// a build tag of its own.
func TestPicture(t *testing.T) {
	b, c := open(t), start(t, "6xxeon-2s,3xepyc-nps4,3xxeon-snc2")
	b.do("open the console", chromedp.EmulateViewport(1280, 620), chromedp.Navigate(c.address))
	b.says(".numbers", "12 nodes")
	const pods = 40
	for i := range pods {
		name := fmt.Sprintf("worker-%02d", i)
		create(b, c, name, []string{"4", "12", "24", "8", "36"}[i%5])
		placed(t, c, name)
	}
	create(b, c, "too-large", "300")
	b.says("#waiting", "too-large")
	b.says("#waiting", "available")
	var png []byte
	b.do("photograph", painted(), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().Do(ctx)
		return err
	}))
	if err := os.WriteFile(*picture, png, 0o600); err != nil {
		t.Fatal(err)
	}
}
