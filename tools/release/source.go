package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/tools/release/image"
)

// semver matches a release's version (https://semver.org), without build metadata, which tags of images cannot contain.
var semver = regexp.MustCompile(`^v?((0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})(-` +
	`(0|[1-9]\d{0,8}|\d{0,40}[A-Za-z-][0-9A-Za-z-]{0,40})(\.(0|[1-9]\d{0,8}|\d{0,40}[A-Za-z-][0-9A-Za-z-]{0,40})){0,4})?)$`)

// parseVersion returns a version without its v.
func parseVersion(text string) (string, error) {
	m := semver.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("version %q is not of the form v1.2.3 or v1.2.3-rc.1", text)
	}
	return m[1], nil
}

// developmentVersion returns the version of a commit without a tag. The hash follows a g, as in git describe. Without
// the g, a hash of only digits that begins with a zero would make the version invalid.
func developmentVersion(commit string) string { return "0.0.0-dev.g" + commit[:12] }

// versionFor returns a version that ends with a release of Kubernetes.
func versionFor(version, release string) string {
	separator := "-"
	if strings.Contains(version, "-") {
		separator = "."
	}
	return version + separator + "kubernetes" + release
}

// isDevelopment reports whether a version is not a release's.
func isDevelopment(version string) bool { return strings.HasPrefix(version, "0.0.0-") }

// readSource returns the sources of a release according to git, and whether HEAD has the version's tag. If the
// version is empty, it is the tag at HEAD, or a development version if there is none. A version that is not for
// development needs a tree without changes, and its tag must not be at another commit.
func readSource(ctx context.Context, version string) (s image.Source, tagged bool, err error) {
	if s.Root, err = git(ctx, "rev-parse", "--show-toplevel"); err != nil {
		return s, false, err
	}
	if s.Commit, err = git(ctx, "rev-parse", "HEAD"); err != nil {
		return s, false, err
	}
	date, err := git(ctx, "show", "-s", "--format=%ct", "HEAD")
	if err != nil {
		return s, false, err
	}
	seconds, err := strconv.ParseInt(date, 10, 64)
	if err != nil {
		return s, false, fmt.Errorf("date of the commit: %w", err)
	}
	s.Date = time.Unix(seconds, 0).UTC()
	if version == "" {
		if tag, err := git(ctx, "describe", "--exact-match", "--tags", "--match", "v*", "HEAD"); err == nil {
			version = tag
		} else {
			version = developmentVersion(s.Commit)
		}
	}
	if s.Version, err = parseVersion(version); err != nil || isDevelopment(s.Version) {
		return s, false, err
	}
	tagged, err = checkRelease(ctx, s)
	return s, tagged, err
}

// checkRelease returns an error if there are uncommitted changes, or if the version's tag is at another commit than
// HEAD. It returns false without an error if the tag does not exist.
func checkRelease(ctx context.Context, s image.Source) (tagged bool, err error) {
	changed, err := git(ctx, "status", "--porcelain")
	if err != nil {
		return false, err
	}
	if changed != "" {
		return false, fmt.Errorf("version %s is to be made of commit %.12s, but files have changed since (commit them, or "+
			"take a version 0.0.0-NAME):\n%s", s.Version, s.Commit, changed)
	}
	// --verify with --quiet fails without a message if the tag does not exist.
	tagCommit, err := git(ctx, "rev-parse", "--quiet", "--verify", "refs/tags/v"+s.Version+"^{commit}")
	if err != nil {
		return false, nil
	}
	if tagCommit != s.Commit {
		return false, fmt.Errorf("tag v%s is at commit %.12s, and HEAD is %.12s: check out the tag, or take another version",
			s.Version, tagCommit, s.Commit)
	}
	return true, nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	} else if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
