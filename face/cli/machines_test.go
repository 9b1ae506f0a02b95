package cli

import (
	"strings"
	"testing"
)

// large is a pod that no NUMA node of gpu-8 has the CPUs for.
const large = `apiVersion: v1
kind: Pod
metadata: {name: large}
spec: {containers: [{name: c, image: i, resources: {limits: {cpu: CPUS, memory: 10Gi}}}]}
`

// Flags about the kubelet change the configuration of the catalogue where they say so, and leave the rest.
func TestFlagsAreLaidOverTheCatalogue(t *testing.T) {
	for _, c := range []struct {
		cpus, flags string
		code        int
		err         string
	}{
		{"200", "", ExitNo, ""},
		{"200", "--topology-manager-policy single-numa-node", ExitNo, ""},
		{"200", "--topology-manager-policy best-effort", 0, ""},
		{"200", "--reserved-cpus 0-7", ExitNo, ""},
		{"108", "--reserved-cpus 0-3,112-115", 0, ""},
		{"218", "--cpu-manager-policy none --topology-manager-policy none", 0, ""}, // 4 of 224 are reserved by amount
		{"218", "--cpu-manager-policy none --topology-manager-policy none --reserved-cpus 0-7", ExitNo, ""},
		{"200", "--memory-manager-policy None", ExitNo, ""},
		{"200", "--reserved-memory 0:memory=6Gi;1:memory=6Gi", ExitNo, ""},
		{"8", "--cpu-manager-policy Static", ExitError, "flags of the kubelet, over the configuration of the catalogue, for"},
	} {
		args := append([]string{"simulate", "-f", "-", "--machines", "gpu-8"}, strings.Fields(c.flags)...)
		out, errs, code := runWith(t, catalogued(), strings.Replace(large, "CPUS", c.cpus, 1), args...)
		if code != c.code || !strings.Contains(errs, c.err) || c.err == "" && errs != "" {
			t.Errorf("%s CPUs, %q: exit code %d, want %d\n%s%s", c.cpus, c.flags, code, c.code, out, errs)
		}
	}
}

// A machine without any configuration has a kubelet that aligns nothing, and the commands warn of that.
func TestMachinesWithoutAConfigurationAreWarnedOf(t *testing.T) {
	const want = "Warning: machine gpu-8: no kubelet configuration is given, so its kubelet aligns " +
		"nothing: want --kubelet-config"
	for line, warns := range map[string]bool{
		"simulate -f - --machines " + lab + "gpu-8.txt":                                        true,
		"check -f - --machine " + lab + "gpu-8.txt":                                            true,
		"simulate -f - --machines " + lab + "gpu-8.txt --topology-manager-policy none":         false,
		"simulate -f - --machines " + lab + "gpu-8.txt --kubelet-config " + lab + "gpu-8.yaml": false,
		"simulate -f - --machines gpu-8":                                                       false,
		"check -f - --machine " + lab + "gpu-8.txt --kubelet-config " + lab + "gpu-8.yaml":     false,
	} {
		_, errs, code := runWith(t, catalogued(), strings.Replace(large, "CPUS", "20", 1), strings.Fields(line)...)
		if errs = strings.Join(strings.Fields(errs), " "); code != 0 || strings.Contains(errs, want) != warns {
			t.Errorf("%s: exit code %d, %s", line, code, errs)
		}
	}
}
