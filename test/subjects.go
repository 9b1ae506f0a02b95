package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"unicode/utf8"
)

// firstChecked is the commit with which the rules of subjects began; older commits are not checked.
const firstChecked = "6e4b38d5ca9c77a04b9e716f4fcdfa892090311a"

// maxSubject is how many characters a subject may have: git and forges cut longer ones off.
const maxSubject = 72

// subjectStart matches how a subject begins: with what is changed and a colon, or with a capital letter.
var subjectStart = regexp.MustCompile(`^([a-z0-9][a-z0-9/_., -]*: \S|[A-Z])`)

// subjectFault returns what is wrong with the subject of a commit, or "".
func subjectFault(subject string) string {
	switch n := utf8.RuneCountInString(subject); {
	case n > maxSubject:
		return fmt.Sprintf("it has %d characters, at most %d", n, maxSubject)
	case strings.HasSuffix(subject, "."):
		return "it ends with a period"
	case !subjectStart.MatchString(subject):
		return `want "area: what it does", or a capital letter first`
	}
	return ""
}

// checkSubjects checks the first lines of the last commits that are newer than the commit since. It omits merges and
// commits of robots, whose subjects the forge writes. If the history lacks since, the check is NOT RUN.
func (r *runner) checkSubjects(ctx context.Context, since string) error {
	const name = "subjects of commits"
	lines, why := history(ctx, since)
	if why != "" {
		return r.reportNotRun("%s: %s", name, why)
	}
	var errs []error
	for _, line := range lines {
		w := strings.SplitN(line, "\t", 3)
		if len(w) != 3 || strings.HasSuffix(w[1], "[bot]") {
			continue
		}
		if what := subjectFault(w[2]); what != "" {
			errs = append(errs, fmt.Errorf("%s: commit %s %q: %s", name, w[0], w[2], what))
		}
	}
	if len(errs) == 0 {
		r.passed(name)
	}
	r.say("%s: %d commits since %s are checked, %d are wrong", name, len(lines), since, len(errs))
	return errors.Join(errs...)
}

// history returns hash, author and subject of the last commits after since, one line each, with tabs between them. If
// they cannot be read, it returns why.
func history(ctx context.Context, since string) (lines []string, why string) {
	// If the folder belongs to another user, as in a container, git reads it only if it is configured as safe.
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*"}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if _, err := git("rev-parse", "--verify", "HEAD"); err != nil {
		return nil, fmt.Sprintf("there is no history of git here (%v)", err)
	}
	if _, err := git("merge-base", "--is-ancestor", since, "HEAD"); err != nil {
		return nil, fmt.Sprintf("the history here lacks commit %s, after which they are checked (%v)", since, err)
	}
	out, err := git("log", "--no-merges", fmt.Sprintf("--max-count=%d", recentCommits), "--format=%h%x09%an%x09%s",
		since+"..HEAD")
	if err != nil {
		return nil, fmt.Sprintf("git log: %v", err)
	}
	if out == "" {
		return nil, ""
	}
	return strings.Split(out, "\n"), ""
}
