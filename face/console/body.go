package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file reads bodies of requests. Invariant: a body is bounded in bytes, and its values are bounded before it is
// decoded, because a value of two bytes may take a kilobyte in memory.

// Bounds of bodies.
const (
	maxManifest = 1 << 20         // bytes
	maxValues   = 80_000          // values of a manifest; a hand-written mebibyte has some 70,000
	maxPlanned  = 5_000           // nodes of a plan
	maxPlanBody = 8 << 20         // bytes of a plan of maxPlanned nodes, without pods
	maxPart     = 16 << 10        // bytes of one list, or of the rules, in a plan
	maxSmall    = 64 << 10        // bytes of other JSON
	maxSecret   = 17 << 10        // bytes of a token
	signInBody  = 5 * time.Second // time for sending the body of a sign-in
)

// readBody returns the body of a request, which must have the route's media type and be within its bounds. HTML forms
// cannot send these types, so no other site can send such a request.
func (x *route) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	given, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	accepted := []string{x.body}
	if x.body == "application/yaml" {
		accepted = append(accepted, "application/json")
	}
	if !slices.Contains(accepted, given) {
		return nil, fail(http.StatusUnsupportedMediaType, "header Content-Type",
			"want "+strings.Join(accepted, " or "))
	}
	if x.open { // clients without a session get less time than the server allows
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(signInBody)) // a test recorder has no deadlines
		defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	}
	tooLarge := fail(http.StatusRequestEntityTooLarge, "body", "larger than "+strconv.Itoa(x.maxBody)+" bytes")
	if r.ContentLength > int64(x.maxBody) {
		return nil, tooLarge
	}
	body := bytes.NewBuffer(make([]byte, 0, max(0, r.ContentLength)+bytes.MinRead))
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, int64(x.maxBody)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge
	case err != nil:
		return nil, fail(http.StatusBadRequest, "body", "cannot be read")
	case x.body == "application/yaml" && values(body.Bytes()) > maxValues:
		return nil, fail(http.StatusRequestEntityTooLarge, "body", fmt.Sprintf(
			"has more than %d lines and values: send fewer workloads at a time", maxValues))
	}
	return body.Bytes(), nil
}

// values returns an upper bound of the number of values in a text of YAML or JSON. It counts line breaks, commas,
// dashes, question marks and opening brackets, even inside strings. The bound is at most about three times the
// number.
func values(text []byte) (n int) {
	at := func(i int) byte {
		if i < 0 || i >= len(text) {
			return '\n'
		}
		return text[i]
	}
	for i, c := range text {
		next := at(i + 1)
		switch c {
		case '\n', ',', '{', '[':
			n++
		case '\r':
			if next != '\n' {
				n++
			}
		case '-', '?':
			if next <= ' ' || next >= 0x80 {
				n++
			}
		case 0x85, 0xa8, 0xa9: // YAML's other breaks: U+0085, U+2028, U+2029
			if at(i-1) == 0xc2 || at(i-1) == 0x80 && at(i-2) == 0xe2 {
				n++
			}
		}
	}
	return n
}

// decode decodes a JSON body. It returns an error for an unknown field, which would otherwise be ignored silently,
// and for text after the value.
func decode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var known *failure
	switch {
	case errors.As(err, &known):
		return known
	case err != nil:
		return fail(http.StatusBadRequest, "body", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fail(http.StatusBadRequest, "body", "has something behind its end")
	}
	return nil
}
