// Package manifest reads workload files. It returns the pods of each object, with the requests that the API server
// would add, and how many of these pods there are.
//
// Invariant: every returned pod has the requests that the API server sets if only limits are given, and breaks no rule
// of the API server that [Validate] has. The first object whose pods break such a rule is an error that names document,
// object and field. An object of an unknown kind is searched for pod templates: each comes with the field where it was
// found, and an object without any is listed as left out. A field that a known kind does not have is an error, since a
// misspelt field would otherwise be ignored.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenon-numa/tenon/core/printable"
)

// Bounds of a file.
const (
	MaxBytes   = 32 << 20
	MaxObjects = 10_000
	// MaxPods bounds the pods of one object.
	MaxPods = 100_000
	// MaxTemplates bounds the templates of a file: an object of an operator may have many.
	MaxTemplates = 10_000

	maxDepth = 3 // of lists in lists
)

// Template describes the equal pods of one object: what one of them is, and how many there are.
type Template struct {
	// Kind and Name are the object's, such as "Deployment" and "trainer". Namespace is empty if the object has none.
	Kind, Namespace, Name string
	// Count is how many of the pods run at a time, 0..MaxPods.
	Count int
	// PerNode is set if every node gets one pod; Count is then not used.
	PerNode bool

	Pod *v1.Pod
	// Guessed is the field in which the pod was found if the kind is not known; then Count is a guess, too.
	Guessed string
	// Late tells which of the pods the controller makes only when others run.
	Late Late
	// Refused is why the API server refuses the object although it accepts its pods; "" if no reason is known.
	Refused string
	// Written is the pod without defaults, as its object has it; nil for a pod of a cluster.
	Written *v1.Pod
	// prefix is set if Name is the object's generateName.
	prefix bool
	// existing is set if the pod comes from a cluster.
	existing bool
}

// String names the object, for example "Deployment ml/trainer".
func (t Template) String() string {
	if t.Namespace == "" {
		return t.Kind + " " + t.Name
	}
	return t.Kind + " " + t.Namespace + "/" + t.Name
}

// File is a workload file.
type File struct {
	Templates []Template // in the order of the file
	// Left names the objects of kinds that have no pods or are unknown, such as "document 2: Service web (v1)".
	Left []string
	// Classes are the runtime classes of the file, by name.
	Classes map[string]*nodev1.RuntimeClass
	// Devices are the claims, templates and classes of devices of the file.
	Devices Devices
	// Groups are the PodGroups of the file, in its order.
	Groups []Group
	// Unjudged names the objects with pods that are not among the templates, and the reasons.
	Unjudged []string
}

// Read reads YAML documents or JSON, with objects or lists of them.
func Read(data []byte) (*File, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("larger than %d bytes", MaxBytes)
	}
	r := reader{decoder: newDecoder(), bytes: len(data)}
	err := Documents(data, func(where string, text []byte) error {
		return r.object(where, text, schema.GroupVersionKind{}, 0)
	})
	if err == nil {
		err = r.trainJobs()
	}
	if err != nil {
		return nil, err
	}
	if len(r.file.Templates) == 0 {
		return nil, noPods(&r.file)
	}
	return &r.file, nil
}

// NoPodsError is the error of Read about a file without any pod that can be judged. File has its other objects.
type NoPodsError struct {
	File *File
	text string
}

func (e *NoPodsError) Error() string { return e.text }

// noPods returns the error for a file without any pod that can be judged. It names up to three of the file's
// objects.
func noPods(f *File) error {
	const few = 3
	list, text := f.Left, "no pods, and no objects that are known to have any"
	if len(f.Unjudged) > 0 {
		list, text = f.Unjudged, "no pods that can be judged"
	}
	if len(list) == 0 {
		return &NoPodsError{f, text}
	}
	text += ": " + strings.Join(list[:min(few, len(list))], "; ")
	if more := len(list) - few; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return &NoPodsError{f, text}
}

// Header has the fields that name an object, and the items of a list.
type Header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// ReadHeader reads the header of an object. The error names the faulty field.
func ReadHeader(text []byte) (h Header, gvk schema.GroupVersionKind, err error) {
	if err := json.Unmarshal(text, &h); err != nil {
		return h, gvk, noObject(text, err)
	}
	gv, err := schema.ParseGroupVersion(h.APIVersion)
	if err != nil {
		return h, gvk, fmt.Errorf("apiVersion: %w", err)
	}
	return h, gv.WithKind(h.Kind), nil
}

// noObject returns the error for a document that is no object, or one whose header has fields of other types.
func noObject(text []byte, err error) error {
	switch text := bytes.TrimSpace(text); {
	case bytes.HasPrefix(text, []byte("[")):
		return errors.New("not an object but a list: want one object for each document, or the objects as items of kind List")
	case !bytes.HasPrefix(text, []byte("{")):
		return errors.New("not an object but a single value: want an object with apiVersion and kind")
	}
	return fmt.Errorf("not an object: %w", err)
}

type reader struct {
	decoder runtime.Decoder
	file    File
	objects int
	trainer []trainObject // in the order of the file
	bytes   int           // size of the file
}

// add appends templates to the file. It returns an error if the file then has more than MaxTemplates.
func (r *reader) add(all ...Template) error {
	if len(r.file.Templates)+len(all) > MaxTemplates {
		return fmt.Errorf("more than %d pod templates: split the file", MaxTemplates)
	}
	r.file.Templates = append(r.file.Templates, all...)
	return nil
}

func newDecoder() runtime.Decoder {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme,
		resourcev1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // the types are constants
		}
	}
	for _, v := range groupVersions {
		s.AddKnownTypeWithName(v.WithKind("PodGroup"), &podGroup{})
	}
	return runtimejson.NewSerializerWithOptions(runtimejson.DefaultMetaFactory, s, s,
		runtimejson.SerializerOptions{Strict: true})
}

// object reads an object, or the objects of a list. An item of a typed list may omit its kind: it has the implied kind.
func (r *reader) object(where string, text []byte, implied schema.GroupVersionKind, depth int) error {
	h, gvk, err := ReadHeader(text)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if gvk.Kind == "" {
		gvk = implied
	}
	if gvk.Kind == "" || gvk.Version == "" {
		return fmt.Errorf("%s: apiVersion or kind is missing", where)
	}
	if item, isList := strings.CutSuffix(gvk.Kind, "List"); isList {
		return r.list(where, h.Items, gvk.GroupVersion().WithKind(item), depth)
	}
	if r.objects++; r.objects > MaxObjects {
		return fmt.Errorf("more than %d objects", MaxObjects)
	}
	what := fmt.Sprintf("%s: %s", where, clip(gvk.Kind))
	if h.Metadata.Name != "" {
		what += " " + clip(h.Metadata.Name)
	}
	if gvk == nodev1.SchemeGroupVersion.WithKind("RuntimeClass") {
		return r.class(what, text)
	}
	if kept, err := r.devices(what, gvk, text); kept {
		return err
	}
	if kept, err := r.group(what, gvk, text); kept {
		return err
	}
	if kinds[gvk] == nil {
		return r.otherKind(what, gvk, text)
	}
	if err := quantities(text); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	obj, _, err := r.decoder.Decode(text, &gvk, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, firstError(err))
	}
	t, err := kinds[gvk](obj)
	if err == nil {
		err = complete(&t)
	}
	if err == nil {
		err = validate(&t)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return r.add(t)
}

// class reads a runtime class of the file. [WithClass] applies it to the pods of the file that name it.
func (r *reader) class(what string, text []byte) error {
	c := &nodev1.RuntimeClass{}
	err := Tame(text)
	if err == nil {
		err = json.Unmarshal(text, c)
	}
	if err == nil && c.Overhead != nil {
		err = overhead(c.Overhead.PodFixed, field.NewPath("overhead", "podFixed")).ToAggregate()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if r.file.Classes == nil {
		r.file.Classes = map[string]*nodev1.RuntimeClass{}
	}
	r.file.Classes[c.Name] = c
	return nil
}

// otherKind reads an object whose Go type this program does not have: of a kind that an operator defines, or of an
// unknown kind.
func (r *reader) otherKind(what string, gvk schema.GroupVersionKind, text []byte) error {
	if kept, err := r.keepTrainer(what, gvk, text); kept {
		return err
	}
	all, whyNot, known, err := r.operators(gvk, text)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := r.add(all...); err != nil {
		return err
	}
	what += fmt.Sprintf(" (%s)", clip(gvk.GroupVersion().String()))
	switch {
	case whyNot != "":
		r.file.Unjudged = append(r.file.Unjudged, what+": "+whyNot)
	case !known && hasPods(gvk.Kind): // in a group or version that no API server has, or a new one
		r.file.Unjudged = append(r.file.Unjudged, what+": its kind has pods, and is not known in this group and version")
	case !known:
		r.file.Left = append(r.file.Left, what)
	}
	return nil
}

func (r *reader) list(where string, items []json.RawMessage, implied schema.GroupVersionKind, depth int) error {
	if depth++; depth > maxDepth {
		return fmt.Errorf("%s: lists in lists", where)
	}
	if implied.Kind == "" { // a List has objects of any kind
		implied = schema.GroupVersionKind{}
	}
	for i, item := range items {
		if err := r.object(fmt.Sprintf("%s, item %d", where, i+1), item, implied, depth); err != nil {
			return err
		}
	}
	return nil
}

// firstError returns the first error of strict decoding, which collects several. It returns any other error
// unchanged.
func firstError(err error) error {
	if strict, ok := runtime.AsStrictDecodingError(err); ok && len(strict.Errors()) > 0 {
		return strict.Errors()[0]
	}
	return err
}

// clip makes a text of the file fit to be shown: short, and without control characters.
func clip(s string) string { return shown(s, 80) }

// shown returns at most room bytes of a text, without control characters.
func shown(s string, room int) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, printable.Clip(s, room))
}
