package house_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// Programs print pages of the documentation as links (document.Docs), since their users may not have the repository,
// and the pages exist.
func TestProgramsPrintLinksToPagesThatExist(t *testing.T) {
	path := regexp.MustCompile(`(^|[^/a-z])docs/[a-z/-]+\.md`)
	below := regexp.MustCompile(`\b(?:howto|reference|design)/[a-z/-]+\.md`)
	links := 0
	for _, p := range packages(t) {
		folder, _, _ := strings.Cut(p.path, "/")
		switch folder {
		case "cmd", "face", "ops", "node", "scheduler", "cluster", "guests", "api":
		default:
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				if path.MatchString(lit.Value) {
					t.Errorf("%s: %s is a path of the repository: print document.Docs and the page", f.name, lit.Value)
				}
				for _, page := range below.FindAllString(lit.Value, -1) {
					links++
					if _, err := fs.Stat(root, "docs/"+page); err != nil {
						t.Errorf("%s: %v", f.name, err)
					}
				}
				return true
			})
		}
	}
	if links < 5 {
		t.Errorf("%d links to pages were found", links)
	}
}
