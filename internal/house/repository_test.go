package house_test

import (
	"testing"

	"github.com/tenon-numa/tenon/internal/house"
)

// mostPhrases bounds by area the number of phrases in comments that make readers go back. The bounds may only fall.
var mostPhrases = map[string]int{"core": 16, "api": 13, "node": 5, "cluster": 1, "scheduler": 2, "ops": 4, "face": 1,
	"guests": 0, "lab": 13, "test": 4, "cmd": 1, "tools": 1, "volcano": 1, "descheduler": 0, "internal": 0,
	"examples": 0, "deploy": 0, "try": 0}

func TestPhrasesThatMakeReadersGoBackBecomeFewer(t *testing.T) {
	r, err := house.Measure(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range r.Areas {
		most, known := mostPhrases[a.Name]
		if !known {
			t.Errorf("area %s is new: bound its phrases", a.Name)
		}
		if a.Phrases > most {
			t.Errorf("the comments of %s have %d of %q, and at most %d are allowed: name the thing again, and write what "+
				"the code returns, writes or reports", a.Name, a.Phrases, house.Banned, most)
		}
		t.Logf("%s: %d phrases in %d lines of comments", a.Name, a.Phrases, a.Comments)
	}
}
