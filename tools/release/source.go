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

// semver is a version as releases have it (https://semver.org).
var semver = regexp.MustCompile(`^v?(\d{1,6}\.\d{1,6}\.\d{1,6}(-[0-9A-Za-z.-]{1,64})?)$`)

// readSource asks git what a release is made of. A version that is not for development needs a tree without changes.
func readSource(ctx context.Context, version string) (s image.Source, err error) {
	if s.Root, err = git(ctx, "rev-parse", "--show-toplevel"); err != nil {
		return s, err
	}
	if s.Commit, err = git(ctx, "rev-parse", "HEAD"); err != nil {
		return s, err
	}
	date, err := git(ctx, "show", "-s", "--format=%ct", "HEAD")
	if err != nil {
		return s, err
	}
	seconds, err := strconv.ParseInt(date, 10, 64)
	if err != nil {
		return s, fmt.Errorf("date of the commit: %w", err)
	}
	s.Date = time.Unix(seconds, 0).UTC()
	if version == "" {
		if tag, err := git(ctx, "describe", "--exact-match", "--tags", "--match", "v*", "HEAD"); err == nil {
			version = tag
		} else {
			version = "0.0.0-dev." + s.Commit[:12]
		}
	}
	m := semver.FindStringSubmatch(version)
	if m == nil {
		return s, fmt.Errorf("version %q is not of the form v1.2.3 or v1.2.3-rc.1", version)
	}
	s.Version = m[1]
	if strings.HasPrefix(s.Version, "0.0.0-") {
		return s, nil
	}
	changed, err := git(ctx, "status", "--porcelain")
	if err == nil && changed != "" {
		err = fmt.Errorf("version %s is to be made of commit %.12s, but files have changed since (commit them, or take a "+
			"version 0.0.0-NAME):\n%s", s.Version, s.Commit, changed)
	}
	return s, err
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
