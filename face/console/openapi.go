package console

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/document"
)

// This file describes the API in OpenAPI 3.1. Operations come from the table of routes, and schemas from the types of
// the answers, so the description cannot differ from the code.

// object is a JSON object.
type object = map[string]any

// describe returns the OpenAPI description of the routes, as JSON.
func describe(routes []route, version string) ([]byte, error) {
	s := schemas{all: object{}, names: map[reflect.Type]string{}}
	problem := s.schema(reflect.TypeFor[document.ErrorDetails]())
	paths := object{}
	for _, r := range routes {
		at, _ := paths[r.full()].(object)
		if at == nil {
			at = object{}
			paths[r.full()] = at
		}
		at[strings.ToLower(r.method)] = r.operation(&s, problem)
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{"title": "Tenon console", "version": version, "license": object{"name": "Apache-2.0",
			"identifier": "Apache-2.0"}, "description": "What you may read of a cluster by NUMA node, and where pods fit."},
		"servers":  []object{{"url": "/"}},
		"security": []object{{"session": []string{}}},
		"paths":    paths,
		"components": object{"schemas": s.all, "securitySchemes": object{"session": object{"type": "http",
			"scheme": "bearer", "description": "A Kubernetes token, or the session cookie of POST " + base + "/session."}}},
	}, "", " ")
}

// operation returns the description of one route. problem is the schema of an error.
func (r *route) operation(s *schemas, problem object) object {
	failed := object{"description": "Why there is no answer (RFC 9457).",
		"content": object{"application/problem+json": object{"schema": problem}}}
	if strings.HasPrefix(r.path, openFuyao) {
		failed = object{"description": "Why there is no answer.",
			"content": object{"application/json": object{"schema": s.schema(reflect.TypeOf(r.answer))}}}
	}
	responses := object{"default": failed}
	switch {
	case r.answer == nil:
		responses["204"] = object{"description": "Done."}
	case r.stream:
		responses["200"] = object{"description": "Events named change; the data of each is a ClusterChange.",
			"content": object{"text/event-stream": object{"schema": object{"type": "string"}}}}
		s.schema(reflect.TypeOf(r.answer))
	default:
		responses["200"] = object{"description": r.help,
			"content": object{"application/json": object{"schema": s.schema(reflect.TypeOf(r.answer))}}}
	}
	out := object{"operationId": r.id, "summary": r.help, "responses": responses}
	if r.open {
		out["security"] = []object{}
	}
	var parameters []object
	for _, p := range r.parameters {
		schema := object{"type": "string"}
		if p.list {
			schema = object{"type": "array", "items": schema}
		}
		parameters = append(parameters, object{"name": p.name, "in": p.in, "description": p.help,
			"required": p.in == "path", "schema": schema})
	}
	if parameters != nil {
		out["parameters"] = parameters
	}
	if r.body != "" {
		content := object{r.body: object{"schema": object{"type": "string"}}}
		if r.input != nil {
			content = object{r.body: object{"schema": s.schema(reflect.TypeOf(r.input))}}
		}
		if r.body == "application/yaml" {
			content["application/json"] = object{"schema": object{"type": "object"}}
		}
		out["requestBody"] = object{"required": r.body != "application/yaml", "content": content}
	}
	return out
}

// schemas has the schemas of the structs in answers and bodies by name, and the names of the structs.
type schemas struct {
	all   object
	names map[reflect.Type]string
}

// schema returns the schema of a type. For a struct it returns a reference, and stores the struct's schema in s.
func (s *schemas) schema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time](), t == reflect.TypeFor[metav1.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return s.schema(t.Elem())
	case t.Kind() == reflect.Struct:
		return s.reference(t)
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Slice:
		return object{"type": "array", "items": s.schema(t.Elem())}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return object{"type": "object"}
		}
		return object{"type": "object", "additionalProperties": s.schema(t.Elem())}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int32, reflect.Uint32, reflect.Int16, reflect.Uint16, reflect.Int8, reflect.Uint8:
		return object{"type": "integer", "format": "int32"}
	default:
		return object{"type": "integer", "format": "int64"}
	}
}

// reference returns a reference to the schema of a struct, and adds the schema if it is new. It stores the name
// before it looks at the fields, because a field may have the same type.
func (s *schemas) reference(t reflect.Type) object {
	name, known := s.names[t]
	if !known {
		name = s.name(t)
		s.names[t] = name
		one := object{"type": "object", "additionalProperties": false}
		s.all[name] = one
		properties, required := object{}, []string{}
		s.fields(t, properties, &required)
		one["properties"], one["required"] = properties, required
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// name returns the name of a type in the description. If another type has the name already, the name of the package
// precedes it.
func (s *schemas) name(t reflect.Type) string {
	name := strings.TrimSuffix(t.Name(), "Document")
	name = strings.ToUpper(name[:1]) + name[1:]
	if _, taken := s.all[name]; taken {
		pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	return name
}

// fields adds the fields of a struct as encoding/json writes them.
func (s *schemas) fields(t reflect.Type, properties object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.fields(f.Type, properties, required)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		properties[name] = s.schema(f.Type)
		if !strings.Contains(options, "omit") {
			*required = append(*required, name)
			// A slice without elements may be nil in documents that are also part of NodeLayouts.
			if f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Pointer {
				properties[name] = object{"anyOf": []object{s.schema(f.Type), {"type": "null"}}}
			}
		}
	}
}
