package client

// The generator writes the comment of the package; this is what it leaves out.
//
// The package calls the console's API: every operation of its OpenAPI document is a method, with types for parameters,
// bodies and answers. openapi.json is what the server answers, which a test of the server checks. A call is one HTTP
// request, and its answer is decoded by its status. The package keeps nothing, retries nothing, and sends no
// credentials but those that a RequestEditorFn adds.

//go:generate ../../../tools/run client oapi-codegen -config config.yaml openapi.json
