package cast_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/lab/cast"
)

func pages() []cast.Page {
	return []cast.Page{
		{Command: "tenon-lab demo", Text: "\nresult\n"},
		{Command: "tenon-lab demo --act a", Text: "plain \x1b[1;38;5;16;48;5;75mA & B\x1b[0m │\nlast"},
	}
}

// A page without a command continues the one before it. A player of asciicasts shows every page, with its command and
// its colours.
func TestWrite(t *testing.T) {
	var b bytes.Buffer
	if err := cast.Write(&b, "demo", pages()); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(&b)
	var head struct{ Version, Width, Height int }
	width := len("$ tenon-lab demo --act a")
	if err := d.Decode(&head); err != nil || head.Version != 2 || head.Width != width || head.Height != 4 {
		t.Fatalf("header %+v, error %v", head, err)
	}
	var shown strings.Builder
	for last := 0.0; ; {
		var event []any
		if err := d.Decode(&event); errors.Is(err, io.EOF) {
			break
		} else if err != nil || len(event) != 3 || event[1] != "o" {
			t.Fatalf("event %v, error %v", event, err)
		}
		at := event[0].(float64)
		if at < last {
			t.Errorf("an event at %.2f s comes after one at %.2f s", at, last)
		}
		last = at
		shown.WriteString(event[2].(string))
	}
	want := "$ tenon-lab demo\r\nresult\r\n\x1b[2J\x1b[H$ tenon-lab demo --act a\r\n" +
		"plain \x1b[1;38;5;16;48;5;75mA & B\x1b[0m │\r\nlast\r\n"
	if shown.String() != want {
		t.Errorf("shows %q, want %q", shown.String(), want)
	}
}

// part is a text of the picture with the seconds of its film in which it is visible.
type part struct {
	text     string
	screen   int
	from, to float64 // of its screen, from is when the text itself appears
}

// parts reads a picture: its texts, and the length of its film in seconds.
func parts(t *testing.T, picture []byte) (out []part, all float64) {
	t.Helper()
	begins := map[int]float64{} // of screens
	for _, m := range regexp.MustCompile(`animation:s(\d+) ([\d.]+)s.*\n@keyframes s\d+\{0%\{opacity:\d\}(?:([\d.]+)%\{opacity:1)?`).
		FindAllSubmatch(picture, -1) {
		all = number(t, m[2])
		begins[int(number(t, m[1]))] = number(t, m[3]) * all / 100
	}
	d := xml.NewDecoder(bytes.NewReader(picture))
	screen, at := -1, []float64{0}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out, all
		} else if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			from := at[len(at)-1]
			for _, a := range x.Attr {
				if m := regexp.MustCompile(`^s(\d+)$`).FindStringSubmatch(a.Value); a.Name.Local == "class" && m != nil {
					screen = int(number(t, []byte(m[1])))
					from = begins[screen]
				}
				if delay, ok := strings.CutPrefix(a.Value, "animation-delay:"); ok {
					from = all + number(t, []byte(strings.TrimSuffix(delay, "s")))
				}
			}
			at = append(at, from)
		case xml.EndElement:
			at = at[:len(at)-1]
		case xml.CharData:
			to := all
			if next, ok := begins[screen+1]; ok {
				to = next
			}
			if strings.TrimSpace(string(x)) != "" && screen >= 0 {
				out = append(out, part{string(x), screen, at[len(at)-1], to})
			}
		}
	}
}

func number(t *testing.T, text []byte) float64 {
	t.Helper()
	if len(text) == 0 {
		return 0
	}
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The picture shows something from its first moment on. Every line appears while its screen is shown, later than the
// line above it, and stays long enough to be read.
func TestThePictureMoves(t *testing.T) {
	var long strings.Builder
	for i := range 50 {
		fmt.Fprintf(&long, "line %d\n", i)
		if i == 30 {
			long.WriteString("\n")
		}
	}
	var b bytes.Buffer
	text := "answer\n\n$ kubectl get pods\nnone"
	err := cast.Draw(&b, "demo", []cast.Page{{Command: "tenon-lab demo", Text: text}, {Text: long.String()}})
	if err != nil {
		t.Fatal(err)
	}
	found, all := parts(t, b.Bytes())
	shown := map[int]string{}
	last := 0.0
	for _, p := range found {
		shown[p.screen] += p.text
		if p.from < last-0.01 || p.to-p.from < 3.9 {
			t.Errorf("%q is shown from %.2f s to %.2f s, after a text that began at %.2f s", p.text, p.from, p.to, last)
		}
		last = p.from
	}
	if first := found[0].text + found[1].text; first != "$ tenon-lab demo" || found[1].from != 0 {
		t.Errorf("at the beginning the picture shows %q", first)
	}
	if !strings.Contains(shown[0], "answer$ kubectlgetpodsnone") || all < 12 {
		t.Errorf("the first screen has %q; the film has %.1f s", shown[0], all)
	}
	if !strings.HasSuffix(shown[1], "line 30") || !strings.HasPrefix(shown[2], "line 31") {
		t.Errorf("the page of 50 lines is not cut at its empty line: %q, %q", shown[1], shown[2])
	}
}

// The picture is valid XML with all text of all pages.
func TestDraw(t *testing.T) {
	var b bytes.Buffer
	if err := cast.Draw(&b, "demo", pages()); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if data, ok := token.(xml.CharData); ok {
			text.Write(data)
		}
	}
	for _, want := range []string{"tenon-lab demo", "result", "plain ", "A & B", " │", "last"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
	if !strings.Contains(b.String(), "#5fafff") {
		t.Errorf("the background is not drawn:\n%s", &b)
	}
}

func TestControlCharactersAreRefused(t *testing.T) {
	for _, text := range []string{"\x07", "\x1b[2J", "\x1b[38;5;999m", "\x1b[3m", "\x1b[38;2;1;2;3m", "\x1b[1"} {
		if err := cast.Write(io.Discard, "demo", []cast.Page{{Text: text}}); err == nil {
			t.Errorf("%q is recorded", text)
		}
	}
}
