package manifest

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
)

// inUTF16 returns a text in UTF-16 with its byte order mark.
func inUTF16(text string, order binary.AppendByteOrder) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		out = order.AppendUint16(out, unit)
	}
	return string(out)
}

const (
	blockPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: i}]}\n"
	jsonPod  = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "%s"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`
	flowPod  = "{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c, image: i}]}}"
)

func podsNamed(form, between string, names ...string) string {
	var all []string
	for _, n := range names {
		all = append(all, fmt.Sprintf(form, n))
	}
	return strings.Join(all, between)
}

// A file has the documents that kubectl takes from it.
func TestDocumentsAreThoseOfKubectl(t *testing.T) {
	block := podsNamed(blockPod, "---\n", "a", "b", "c")
	indented := "  " + strings.ReplaceAll(strings.TrimSpace(blockPod), "\n", "\n  ") + "\n"
	for name, text := range map[string]string{
		"lines":                block,
		"lines of Windows":     strings.ReplaceAll(block, "\n", "\r\n"),
		"byte order mark":      "\ufeff" + block,
		"UTF-16":               inUTF16(block, binary.LittleEndian),
		"UTF-16, big end":      inUTF16("# \U0001d11e\n"+block, binary.BigEndian),
		"JSON in UTF-16":       inUTF16(podsNamed(jsonPod, "\n", "a", "b", "c"), binary.LittleEndian),
		"JSON and a mark":      "\ufeff" + podsNamed(jsonPod, "\n", "a", "b", "c"),
		"JSON":                 podsNamed(jsonPod, "\n", "a", "b", "c"),
		"JSON in one line":     podsNamed(jsonPod, "", "a", "b", "c"),
		"JSON, separated":      podsNamed(jsonPod, "\n---\n", "a", "b", "c"),
		"JSON, then YAML":      podsNamed(jsonPod, "", "a") + "\n---\n" + podsNamed(blockPod, "---\n", "b", "c"),
		"YAML, then JSON":      podsNamed(blockPod, "", "a") + "---\n" + podsNamed(jsonPod, "\n---\n", "b", "c"),
		"braces":               podsNamed(flowPod, "\n---\n", "a", "b", "c"),
		"JSON, then braces":    podsNamed(jsonPod, "", "a") + "\n---\n" + podsNamed(flowPod, "\n---\n", "b", "c"),
		"end of a document":    podsNamed(blockPod, "...\n# more\n---\n", "a", "b", "c") + "...\n",
		"indented":             podsNamed(indented, "---\n", "a", "b", "c"),
		"comment of line ends": "# \u2028\n" + block,
	} {
		f, err := Read([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, x := range f.Templates {
			got = append(got, x.Name)
		}
		if strings.Join(got, " ") != "a b c" {
			t.Errorf("%s: pods %q", name, got)
		}
	}
}

// Where the YAML library would read only the beginning of a part, the file is refused.
func TestNoDocumentIsLost(t *testing.T) {
	block := podsNamed(blockPod, "---\n", "a", "b", "c")
	const goesOn = "it goes on where the document ends: separate documents by a line ---"
	for name, c := range map[string]struct{ text, want string }{
		"carriage returns": {strings.ReplaceAll(block, "\n", "\r"), "document 1: " + goesOn},
		"next lines":       {strings.ReplaceAll(block, "\n", "\u0085"), "document 1: " + goesOn},
		"line separators":  {strings.ReplaceAll(block, "\n", "\u2028"), "document 1: " + goesOn},
		"paragraphs":       {strings.ReplaceAll(block, "\n", "\u2029"), "document 1: " + goesOn},
		"behind an end":    {podsNamed(blockPod, "...\n", "a", "b"), "document 1: " + goesOn},
		"braces on braces": {podsNamed(flowPod, "\n", "a", "b"), "document 1: " + goesOn},
		"second document":  {block + "---\n" + podsNamed(flowPod, "\n", "d", "e"), "document 4: " + goesOn},
		"behind a comment": {"# two\n\n" + podsNamed(flowPod, "\n", "a", "b"), "document 1: " + goesOn},
		"less indented":    {"  a: 1\n" + block, "document 1: "},
		"behind two of JSON": {podsNamed(jsonPod, "\n", "a", "b") + "\n---\n" + podsNamed(jsonPod, "", "c"),
			"document 3: JSON: invalid character '-'"},
		"JSON that is cut": {podsNamed(jsonPod, "\n", "a", "b")[:200], "document 2: "},
		"UTF-16 that is cut": {inUTF16(block, binary.LittleEndian)[:101],
			"UTF-16 of an odd number of bytes: the file is cut off"},
		"list": {"- " + strings.ReplaceAll(podsNamed(jsonPod, "", "a"), "\n", "\n  "),
			"document 1: not an object but a list: want one object for each document, or the objects as items of kind List"},
		"list of JSON": {"[" + podsNamed(jsonPod, ",", "a", "b") + "]", "document 1: not an object but a list"},
		"text":         {"hello", "document 1: not an object but a single value: want an object with apiVersion and kind"},
	} {
		if f, err := Read([]byte(c.text)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q; file %+v", name, err, c.want, f)
		}
	}
}

// An empty amount, as templates make them, is 0 for the API server.
func TestEmptyAmountsAreZero(t *testing.T) {
	text := strings.Replace(fmt.Sprintf(blockPod, "a"), "image: i",
		"image: i, resources: {limits: {cpu: , memory: 1Gi}}", 1)
	f, err := Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c := f.Templates[0].Pod.Spec.Containers[0].Resources
	if !c.Requests.Cpu().IsZero() || !c.Limits.Cpu().IsZero() || c.Requests.Memory().Value() != 1<<30 {
		t.Errorf("read as %+v", c)
	}
}
