package plugin

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/descheduler/pkg/descheduler"
	"sigs.k8s.io/descheduler/pkg/framework/pluginregistry"
)

// The descheduler accepts the policy of the documentation.
func TestThePolicyOfTheDocumentationIsRight(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/make-room.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```yaml\napiVersion: descheduler/")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("the page has no policy")
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: descheduler/"+block), 0o600); err != nil {
		t.Fatal(err)
	}
	descheduler.SetupPlugins()
	Register(pluginregistry.PluginRegistry, Host{})
	p, err := descheduler.LoadPolicyConfig(file, fake.NewClientset(), pluginregistry.PluginRegistry)
	if err != nil {
		t.Fatal(err)
	}
	if a := argsIn(t, p); *a.Most != 3 || a.PendingNamespaces == nil {
		t.Errorf("the arguments are %+v", a)
	}
}

// The reference has a row for each argument.
func TestTheReferenceHasAllArguments(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/descheduler.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") {
			rows++
		}
	}
	args := reflect.TypeFor[MakeRoomArgs]()
	for i := range args.NumField() {
		name, _, _ := strings.Cut(args.Field(i).Tag.Get("json"), ",")
		if name != "" && !strings.Contains(string(page), "\n| `"+name+"` |") {
			t.Errorf("docs/reference/descheduler.md has no row for %s", name)
		}
	}
	if rows != args.NumField()-1 { // without the TypeMeta
		t.Errorf("docs/reference/descheduler.md has %d rows for %d arguments", rows, args.NumField()-1)
	}
}
