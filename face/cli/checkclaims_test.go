package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const claimingPod = `
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ml}
spec:
  resourceClaims:
  - {name: pair, resourceClaimTemplateName: gpus}
  - {name: nic, resourceClaimName: shared}
  containers:
  - name: c
    image: i
    resources: {limits: {cpu: 2, memory: 1Gi}, claims: [{name: pair, request: REQUEST}, {name: nic}]}
`

const claimTemplate = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus, namespace: ml}
spec:
  spec:
    devices:
      requests:
      - {name: big, exactly: {deviceClassName: gpu.example.com, count: 2}}
      - name: small
        firstAvailable:
        - {name: a, deviceClassName: a.example.com}
        - {name: b, deviceClassName: b.example.com, allocationMode: All}
`

// check looks for claims and templates in all files of the command. It names those that are missing, and those that it
// could not read.
func TestCheckFindsTheClaimsOfFiles(t *testing.T) {
	pods := strings.Replace(claimingPod, "REQUEST", "big", 1)
	const asks = "Claim pair: ResourceClaimTemplate ml/gpus (in the files) asks for 2 of class gpu.example.com, 1 of " +
		"class a.example.com or all of class b.example.com."
	const unknown = "Claim nic: ResourceClaim ml/shared: whether it exists is not known (it is not in the files, and no " +
		"cluster was asked)."
	for name, c := range map[string]struct {
		files []string
		want  []string
		lacks string
	}{
		"in the same file": {[]string{pods + "---" + claimTemplate}, []string{asks, unknown,
			"Not judged: which nodes have devices for its claims"}, "Warning"},
		"in another file": {[]string{pods, claimTemplate + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: q}\n" +
			"spec: {containers: [{name: c, image: i}]}\n"}, []string{asks, unknown}, "Warning"},
		"in no file": {[]string{pods}, []string{"Claim pair: ResourceClaimTemplate ml/gpus: whether it exists is not known",
			unknown}, "asks for"},
		"a request that the claim lacks": {
			[]string{strings.Replace(claimingPod, "REQUEST", "huge", 1) + "---" + claimTemplate},
			[]string{asks, "Pod ml/p: Not without a change: container c uses the request huge of claim pair, which has no " +
				"such request"}, "Fits"},
		"a pod without claims": {[]string{"apiVersion: v1\nkind: Pod\nmetadata: {name: q}\n" +
			"spec: {containers: [{name: c, image: i}]}\n---" + claimTemplate}, []string{"Pod default/q: Fits now"}, "laim"},
	} {
		dir := t.TempDir()
		args := []string{"check", "--machine", filepath.Join(dir, "m.txt")}
		files := map[string]string{"m.txt": checkMachine}
		for i, text := range c.files {
			file := string(rune('a'+i)) + ".yaml"
			files[file], args = text, append(args, "-f", filepath.Join(dir, file))
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs bytes.Buffer
		code := Run(t.Context(), args, &out, &errs, Setup{Stages: stages(nil)})
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range c.want {
			if (code == ExitYes) != (c.lacks != "Fits") || !strings.Contains(text, want) {
				t.Errorf("%s: code %d, without %q\n%s%s", name, code, want, out.String(), errs.String())
			}
		}
		if c.lacks != "" && strings.Contains(text, c.lacks) {
			t.Errorf("%s: with %q\n%s", name, c.lacks, out.String())
		}
	}
	_, errs, code := checks(t, pods+"---"+strings.Replace(claimTemplate, "exactly", "exactely", 1))
	if code != ExitError || !strings.Contains(errs, `ResourceClaimTemplate gpus: unknown field "spec.spec.devices.requests[0].exactely"`) {
		t.Errorf("a misspelt field: code %d, %s", code, errs)
	}
}
