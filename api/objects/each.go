package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// This file reads lists of objects that others fill with what they like.

// ErrTooLarge is the error of ListWithin about an answer that is too large.
var ErrTooLarge = errors.New("the answer is too large")

// stream sends a request for a list in JSON, and returns the answer as it comes.
func (c *Client[T, L]) stream(ctx context.Context, o metav1.ListOptions) (io.ReadCloser, error) {
	return c.to(c.group.server.Get(), &o).Timeout(timeout(o)).SetHeader("Accept", runtime.ContentTypeJSON).Stream(ctx)
}

// ListWithin is List that reads no more bytes of the answer than most, and returns ErrTooLarge if there are more. It
// asks for JSON.
func (c *Client[T, L]) ListWithin(ctx context.Context, o metav1.ListOptions, most int64) (L, error) {
	out := c.newList()
	body, err := c.stream(ctx, o)
	if err != nil {
		return out, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, most+1))
	switch {
	case err != nil:
		return out, fmt.Errorf("read a list of %s: %w", c.resource, err)
	case int64(len(text)) > most:
		return out, fmt.Errorf("list %s: %w: it has more than %d bytes", c.resource, ErrTooLarge, most)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return out, fmt.Errorf("decode a list of %s: %w", c.resource, err)
	}
	return out, nil
}

// Each calls do for each object that the options select, with one of them in memory at a time. It asks for JSON. After
// an error, do may have been called for some of them.
func (c *Client[T, L]) Each(ctx context.Context, o metav1.ListOptions, do func(T)) error {
	body, err := c.stream(ctx, o)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := eachItem(json.NewDecoder(body), func(in *json.Decoder) error {
		one := c.newObject()
		if err := in.Decode(one); err != nil {
			return err
		}
		do(one)
		return nil
	}); err != nil {
		return fmt.Errorf("read a list of %s: %w", c.resource, err)
	}
	return nil
}

// eachItem calls next before each item of a list, which next has to decode.
func eachItem(in *json.Decoder, next func(*json.Decoder) error) error {
	if err := expect(in, '{'); err != nil {
		return err
	}
	for in.More() {
		field, err := in.Token()
		if err != nil {
			return err
		}
		if field != "items" {
			var other json.RawMessage
			if err := in.Decode(&other); err != nil {
				return err
			}
			continue
		}
		begin, err := in.Token()
		if err != nil || begin == nil { // null is a list without items
			if err != nil {
				return err
			}
			continue
		}
		if begin != json.Delim('[') {
			return fmt.Errorf("items are %v, and no list", begin)
		}
		for in.More() {
			if err := next(in); err != nil {
				return err
			}
		}
		if err := expect(in, ']'); err != nil {
			return err
		}
	}
	return expect(in, '}')
}

// expect reads a delimiter.
func expect(in *json.Decoder, want json.Delim) error {
	got, err := in.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%v in place of %v", got, want)
	}
	return err
}
