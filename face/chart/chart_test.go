package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

func draw(t *testing.T, rows ...Row) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, "who <packs> & who does not", rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// widths returns the widths of the bars, and checks that the text is XML.
func widths(t *testing.T, svg string) (out []int) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "rect" {
			for _, a := range e.Attr {
				if a.Name.Local == "width" {
					n, err := strconv.Atoi(a.Value)
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, n)
				}
			}
		}
	}
}

func TestBarsAreInProportion(t *testing.T) {
	svg := draw(t, Row{Title: "r", Panels: []Panel{{Title: "pods", Bars: []Bar{
		{Label: "a<b", Value: 200, Text: "200", Strong: true}, {Label: "c", Value: 50, Text: "50"}, {Label: "d"}}}}})
	w := widths(t, svg)
	if len(w) != 3 || w[0] < 300 || w[0] > width || w[1] < w[0]/4-1 || w[1] > w[0]/4+1 || w[2] != 1 {
		t.Errorf("bars of widths %v, want the second a quarter of the first", w)
	}
	for _, s := range []string{"a&lt;b", ">200<", "who &lt;packs&gt; &amp; who", "bar strong"} {
		if !strings.Contains(svg, s) {
			t.Errorf("%q is not in\n%s", s, svg)
		}
	}
}

func TestNothingIsDividedByZero(t *testing.T) {
	if w := widths(t, draw(t, Row{Panels: []Panel{{Bars: []Bar{{Label: "x"}}}, {}}})); len(w) != 1 || w[0] != 1 {
		t.Errorf("bars of widths %v, want one of 1", w)
	}
}

func TestValuesThatAreNoAmountsAreNamed(t *testing.T) {
	for _, v := range []float64{-1, math.NaN(), math.Inf(1)} {
		err := Write(io.Discard, "t", []Row{{Panels: []Panel{{Title: "p", Bars: []Bar{{Label: "bad", Value: v}}}}}})
		if err == nil || !strings.Contains(err.Error(), `p: bar "bad"`) {
			t.Errorf("value %v: error %v", v, err)
		}
	}
	if err := Write(io.Discard, "t", []Row{{}}); err == nil {
		t.Error("a row without panels is no error")
	}
}
