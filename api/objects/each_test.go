package objects

import (
	"encoding/json"
	"strings"
	"testing"
)

// read returns the items of a list, joined.
func read(text string) (string, error) {
	var out []string
	err := eachItem(json.NewDecoder(strings.NewReader(text)), func(in *json.Decoder) error {
		var item json.RawMessage
		err := in.Decode(&item)
		out = append(out, string(item))
		return err
	})
	return strings.Join(out, " "), err
}

// Items are read one by one, whatever else a list has and in any order.
func TestItemsOfAList(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "List", "metadata": {"items": [7]}, "items": [{"a": 1}, {"b": [2]}], "more": null}`: `{"a": 1} {"b": [2]}`,
		`{"items": null}`: ``,
		`{"items": []}`:   ``,
		`{}`:              ``,
	} {
		if got, err := read(text); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{``, `[]`, `7`, `{"items": 7}`, `{"items": {}}`, `{"items": [{"a": 1}`, `{"items": [{]}`,
		`{"items": [1]`, `{"items"`} {
		if got, err := read(text); err == nil {
			t.Errorf("%s is read as %q", text, got)
		}
	}
}

// What is read item by item is what is read at once.
func FuzzItems(f *testing.F) {
	f.Add(`{"kind": "List", "items": [{"a": 1}, 2], "x": []}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := read(text)
		var list map[string]json.RawMessage
		if err != nil || json.Unmarshal([]byte(text), &list) != nil || strings.Count(text, `"`) != 4 {
			return // a list with a field twice, or with more behind it, has no answer to compare with
		}
		var items []json.RawMessage
		if json.Unmarshal(list["items"], &items) != nil {
			return
		}
		var want []string
		for _, x := range items {
			want = append(want, string(x))
		}
		if got != strings.Join(want, " ") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	})
}
