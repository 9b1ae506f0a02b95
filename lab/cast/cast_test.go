package cast_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
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

// A player of asciicasts shows every page, with its command and its colours.
func TestWrite(t *testing.T) {
	var b bytes.Buffer
	if err := cast.Write(&b, "demo", pages()); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(&b)
	var head struct{ Version, Width, Height int }
	width := len("$ tenon-lab demo --act a") + 1
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
	for _, want := range []string{"result", "plain ", "A & B", " │", "last", "tenon-lab demo --act a"} {
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
