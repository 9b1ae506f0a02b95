package page

import (
	"encoding/json"
	"fmt"
)

// Subject is a file or an image in a statement.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"` // sha256 in hexadecimal digits
}

// Provenance returns an in-toto statement (https://slsa.dev/spec/v1.0/provenance) about the subjects and their origin:
// the commit, the toolchain and the command that builds them again.
func Provenance(subjects []Subject, version, commit, toolchain string) ([]byte, error) {
	const repository = "git+https://github.com/tenon-numa/tenon"
	statement := map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          repository + "/tools/release",
				"externalParameters": map[string]any{"version": version, "command": "make release VERSION=v" + version},
				"internalParameters": map[string]any{"go": toolchain},
				"resolvedDependencies": []any{map[string]any{
					"uri": repository + "@" + commit, "digest": map[string]string{"gitCommit": commit}}},
			},
			"runDetails": map[string]any{"builder": map[string]string{"id": repository + "/tools/release@" + commit}},
		},
	}
	out, err := json.MarshalIndent(statement, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the statement of provenance: %w", err)
	}
	return append(out, '\n'), nil
}
