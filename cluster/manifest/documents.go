package manifest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode/utf16"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Documents calls do for every document of a text, with the document as JSON and a name such as "document 2". As for
// kubectl, documents are YAML, separated by lines that begin with "---", or JSON, one object behind the other; after
// one object of JSON, YAML may follow. Empty documents are skipped. The text may be UTF-16 with a byte order mark.
func Documents(data []byte, do func(where string, text []byte) error) error {
	data, err := inUTF8(data)
	if err != nil {
		return err
	}
	read := 0
	if utilyaml.IsJSONBuffer(data) {
		if json.Valid(data) { // the usual file of one object may be large, and is not copied
			return do("document 1", data)
		}
		var rest []byte
		if rest, read, err = jsonDocuments(data, do); err != nil || rest == nil {
			return err
		}
		data = rest
	}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for i := read + 1; ; i++ {
		where := fmt.Sprintf("document %d", i)
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.Join(checkAliases(doc), checkEnd(doc))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		text, err := toJSON(doc)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if s := string(bytes.TrimSpace(text)); s == "null" {
			continue
		}
		if err := do(where, text); err != nil {
			return err
		}
	}
}

// jsonDocuments calls do for the objects at the beginning of a text, one behind the other. If YAML begins behind the
// first one or at once, it returns that rest of the text, and how many objects it has read.
func jsonDocuments(data []byte, do func(where string, text []byte) error) (rest []byte, read int, err error) {
	for from := json.NewDecoder(bytes.NewReader(data)); ; read++ {
		var text json.RawMessage
		at := from.InputOffset()
		err := from.Decode(&text)
		if errors.Is(err, io.EOF) {
			return nil, read, nil
		}
		where := fmt.Sprintf("document %d", read+1)
		if err != nil && read > 1 { // as for kubectl: nothing but JSON follows
			return nil, read, fmt.Errorf("%s: JSON: %w", where, err)
		}
		if err != nil {
			return bytes.TrimLeft(data[at:], " \t\r\n"), read, nil
		}
		if err := do(where, text); err != nil {
			return nil, read, err
		}
	}
}

// inUTF8 returns a text without its byte order mark, in UTF-8 if the mark is one of UTF-16: PowerShell's ">" writes
// such files.
func inUTF8(data []byte) ([]byte, error) {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return data[3:], nil
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		order = binary.BigEndian
	case !bytes.HasPrefix(data, []byte("\xff\xfe")):
		return data, nil
	}
	if data = data[2:]; len(data)%2 != 0 {
		return nil, errors.New("UTF-16 of an odd number of bytes: the file is cut off")
	}
	out := make([]byte, 0, len(data)) // of YAML, nearly all is ASCII
	for len(data) > 0 {
		r := rune(order.Uint16(data))
		data = data[2:]
		if utf16.IsSurrogate(r) && len(data) > 0 {
			if both := utf16.DecodeRune(r, rune(order.Uint16(data))); both != utf8.RuneError {
				r, data = both, data[2:]
			}
		}
		out = utf8.AppendRune(out, r) // a surrogate alone becomes the replacement character
	}
	return out, nil
}

// doubtful matches a part of a file that may have more than one document for the YAML library, which reads only the
// first: YAML ends lines at more characters than kubectl and Documents, "..." ends a document, and so does any end of
// a value that does not begin a line with a word.
var doubtful = regexp.MustCompile(`(?m)\r[^\n]|[\x{85}\x{2028}\x{2029}]|^\.\.\.|\A(\s|#.*\n)*[^\s#\w]|\A(#.*\n|\s*\n)*[ \t]`)

// checkEnd refuses a part of a file that goes on behind its first document, since that would be lost.
func checkEnd(part []byte) error {
	if !doubtful.Match(part) {
		return nil
	}
	var first, second yamlv3.Node
	in := yamlv3.NewDecoder(bytes.NewReader(part))
	if in.Decode(&first) != nil {
		return nil // toJSON reports the fault
	}
	if err := in.Decode(&second); !errors.Is(err, io.EOF) {
		return errors.New("it goes on where the document ends: separate documents by a line ---, and end lines with a " +
			"line feed")
	}
	return nil
}

// toJSON converts a YAML document. A repeated key is an error, unless the document merges mappings (<<): then a key
// may override the same key of a merged mapping. The result is what kubectl gets from the same library.
func toJSON(doc []byte) ([]byte, error) {
	text, err := yaml.YAMLToJSONStrict(doc)
	if err != nil && merges.Match(doc) {
		return yaml.YAMLToJSON(doc)
	}
	return text, err
}

// merges matches a merge key at the beginning of a line or of an item, or in braces.
var merges = regexp.MustCompile(`(?m)(^[ \t-]*|[{,][ \t]*)<<[ \t]*:`)
