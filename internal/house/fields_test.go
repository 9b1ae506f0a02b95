package house_test

import (
	"go/ast"
	"go/printer"
	"slices"
	"strings"
	"testing"
)

// fieldsPage has the table of the fields that others may write.
const fieldsPage = "docs/reference/security.md"

// keys are the annotations and labels that programs read, by the expression in the source. A variable stands for the
// keys that it may have. "" are keys that a configuration or a selector of people names.
var keys = map[string]string{
	"v1.MirrorPodAnnotationKey":      "kubernetes.io/config.mirror",
	`"kubernetes.io/config.source"`:  "kubernetes.io/config.source",
	"v1alpha1.DecisionAnnotation":    "tenon.sh/placement",
	"v1alpha1.AffinityAnnotation":    "tenon.sh/numa-affinity",
	"AffinityGroupAnnotation":        "tenon.sh/affinity-group",
	"ScopeAnnotation":                "tenon.sh/numa-scope",
	"TogetherAnnotation":             "tenon.sh/numa-together",
	"ApartAnnotation":                "tenon.sh/numa-apart",
	"AlignAnnotation":                "tenon.sh/align",
	"IgnoreAnnotation":               "tenon.sh/align-ignore",
	"podapi.MoveCostAnnotation":      "tenon.sh/move-cost",
	"podapi.SafeToEvict":             "cluster-autoscaler.kubernetes.io/safe-to-evict",
	"podapi.VolcanoGroup":            "scheduling.k8s.io/group-name",
	"podapi.CoschedulingGroup":       "scheduling.x-k8s.io/pod-group",
	"podapi.YuniKornGroup":           "yunikorn.apache.org/task-group-name",
	"podapi.JobSetExclusive":         "alpha.jobset.sigs.k8s.io/exclusive-topology",
	"podapi.KoordinatorGang":         "gang.scheduling.koordinator.sh/name",
	"podapi.KoordinatorGroup":        "pod-group.scheduling.sigs.k8s.io`",
	"podapi.KoordinatorLightweight":  "pod-group.scheduling.sigs.k8s.io/name",
	"about":                          "tenon.sh/align",
	"annotation":                     "tenon.sh/align-ignore",
	"KoordinatorSpec":                "scheduling.koordinator.sh/numa-topology-spec",
	"StrategyAnnotation":             "tenon.sh/scoring-strategy",
	"strategyAnnotation":             "tenon.sh/scoring-strategy",
	"report.LogAnnotation":           "tenon.sh/log-level",
	"LogAnnotation":                  "tenon.sh/log-level",
	"nameLabel":                      "app.kubernetes.io/name",
	"Annotation":                     "tenon.sh/kubelet-change",
	"selectedNode":                   "volume.kubernetes.io/selected-node",
	"v1.BetaStorageClassAnnotation":  "storage class",
	"labelManagedBy":                 "app.kubernetes.io/managed-by",
	`"app.kubernetes.io/managed-by"`: "app.kubernetes.io/managed-by",
	"annotationHeld":                 "tenon.sh/held",
	"annotationWhole":                "tenon.sh/whole",
	"annotationMalformed":            "tenon.sh/malformed",
	"annotationLeftOut":              "tenon.sh/left-out",
	"annotationOmitted":              "tenon.sh/omitted",
	"annotationCPUManager":           "kubelet.koordinator.sh/cpu-manager-policy",
	"annotationCPUTopology":          "node.koordinator.sh/",
	"annotationPodCPUs":              "node.koordinator.sh/",
	"podfingerprint.Annotation":      "fingerprint",
	"ConsumeAnnotation":              "autoscaling.x-k8s.io/consume-provisioning-request",
	"ClassAnnotation":                "autoscaling.x-k8s.io/provisioning-class-name",
	"scheduler/preempt key":          "schedulingConstraints.topology",
	"ops/apply orderKey":             "", // of a pod in the command's own namespace
	"api/pod name":                   "tenon.sh/numa-policy",
	"cluster/nrt name":               "tenon.sh/held",
	"node/agent key":                 "kubernetes.io/config.mirror",
	"node/arbiter key":               "kubernetes.io/config.mirror",
	"cluster/live key":               "kubernetes.io/config.mirror",
	"cluster/kube key":               "",
	"cluster/stage key":              "",
	"cluster/stage x.Key":            "",
	"cluster/stage other":            "",
	"cluster/stage v1.LabelHostname": "",
	"cluster/stage label":            "schedulingConstraints.topology", // a rack
	"face/console l":                 "",

	`"kueue.x-k8s.io/pod-group-name"`:    "kueue.x-k8s.io/pod-group-name",
	`"leaderworkerset.sigs.k8s.io/name"`: "leaderworkerset.sigs.k8s.io/name",
	`"jobset.sigs.k8s.io/jobset-name"`:   "jobset.sigs.k8s.io/jobset-name",
}

// Users may write false annotations and labels. For each such field that a program reads, the table has a row with the
// effect of a false value and a test that writes one.
func TestFieldsThatOthersWriteAreInTheTable(t *testing.T) {
	table := fieldRows(t)
	text := strings.Join(slices.Concat(table...), "\n")
	for _, p := range packages(t) {
		top, _, _ := strings.Cut(p.path, "/")
		if !slices.Contains([]string{"api", "node", "cluster", "scheduler", "ops", "guests", "face",
			"cmd"}, top) {
			continue
		}
		for _, f := range p.files {
			if f.test || f.generated() {
				continue
			}
			for _, read := range reads(f.syntax) {
				var expr strings.Builder
				if err := printer.Fprint(&expr, p.fset, read.Index); err != nil {
					t.Fatal(err)
				}
				key, known := keys[expr.String()]
				if !known {
					key, known = keys[p.path+" "+expr.String()]
				}
				if !known || !strings.Contains(text, key) {
					t.Errorf("%s: reads the annotation or label %s, which the table of %s lacks: say there who may write it, what is "+
						"concluded and what a lie costs, with a test", p.at(read), expr.String(), fieldsPage)
				}
			}
		}
	}
}

// reads are the annotations and labels of objects that a file reads by their keys.
func reads(f *ast.File) (out []*ast.IndexExpr) {
	written := map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.AssignStmt:
			for _, to := range x.Lhs {
				written[to] = true
			}
		case *ast.IndexExpr:
			of := x.X
			if call, ok := of.(*ast.CallExpr); ok {
				of = call.Fun
			}
			sel, ok := of.(*ast.SelectorExpr)
			names := []string{"Annotations", "Labels", "GetAnnotations", "GetLabels"}
			if ok && slices.Contains(names, sel.Sel.Name) && !written[x] {
				out = append(out, x)
			}
		}
		return true
	})
	return out
}

// Each row of the table names an existing test, and fills all columns.
func TestEveryLieInTheTableIsTold(t *testing.T) {
	rows := fieldRows(t)
	if len(rows) < 25 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	seen := map[string]bool{}
	for _, row := range rows {
		if len(row) != 5 || slices.Contains(row, "") {
			t.Errorf("row %q has not five cells", row)
			continue
		}
		if seen[row[0]] {
			t.Errorf("field %q is there twice", row[0])
		}
		seen[row[0]] = true
		folder, name, _ := strings.Cut(strings.TrimPrefix(row[4], "`"), "` ")
		if !hasTest(t, folder, name) {
			t.Errorf("field %q: package %q has no test %q", row[0], folder, name)
		}
	}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	for _, p := range packages(t) {
		for _, f := range p.files {
			if p.path != folder || !f.test {
				continue
			}
			for _, d := range f.syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name {
					return true
				}
			}
		}
	}
	return false
}

// fieldRows returns the cells of the table's rows.
func fieldRows(t *testing.T) (out [][]string) {
	t.Helper()
	_, after, found := strings.Cut(document(t, fieldsPage), "| field | who may write it |")
	if !found {
		t.Fatalf("%s has no table of fields", fieldsPage)
	}
	for _, line := range strings.Split(after, "\n")[2:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	return out
}
