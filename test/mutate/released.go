package main

import "regexp"

// releaseFaults returns faults in each row of place.Changes, the rules that hold for some releases of the kubelet
// only: a rule begins a release late, or a release early, or is misread. Each fault must be detected by the
// differential test with the managers of the release in which the fault shows.
func releaseFaults() (out []judgedFault) {
	const at, table = "core/place/", "core/place/release.go"
	for _, r := range []struct {
		rule, last, first, next string  // minor releases: last has the old rule, first the new one, next follows first
		old, new                []fault // misreadings of the old rule, judged by last, and of the new one, judged by first
		gate                    string  // feature gate of the rule
	}{
		{"memory-groups", "31", "32", "33", nil, []fault{
			{"only groups are kept", at + "memory.go",
				"a.u.keeps && a.u.violates(mask)", "a.u.keeps && mask&(mask-1) != 0 && a.u.violates(mask)"},
			{"only single NUMA nodes are kept", at + "memory.go",
				"a.u.keeps && a.u.violates(mask)", "a.u.keeps && mask&(mask-1) == 0 && a.u.violates(mask)"},
		}, ""},
		{"memory-state", "31", "32", "33", nil, []fault{
			{"all NUMA nodes are one group", at + "hazard.go",
				"together := b.cells[i].group & a.all", "together := a.all"},
		}, ""},
		{"uncore-odd-cpus", "33", "34", "35", nil, []fault{
			{"one core more, always", at + "take.go",
				"cores = (p.need + per - 1) / per", "cores = p.need/per + 1"},
			{"both threads of the last core", at + "take.go",
				"p.roundUp && p.need%2 != 0 && per > 1", "p.roundUp && p.need%2 == 0 && per > 1"},
		}, ""},
		{"pod-level-resources", "33", "34", "35", nil, []fault{
			{"such pods are served if they are Burstable", at + "release.go",
				"return p.QoS == Guaranteed && (r.podLevel()",
				"return p.PodLevel != (p.QoS == Guaranteed) && (r.podLevel()"},
			{"such pods are served if they have init containers", at + "release.go",
				"!(p.PodLevel && r", "!(p.PodLevel && p.Containers[0].Kind == App && r"},
		}, ""},
		{"device-hints", "35", "36", "37", []fault{
			{"devices without a NUMA node have hints", at + "ground.go",
				"named && (res.NUMAs == 0 || !r.Release.has(hintsOfDeviceNUMAs))",
				"named && res.NUMAs == 0 || !r.Release.has(hintsOfDeviceNUMAs)"},
		}, []fault{
			{"few devices have the old hints", at + "ground.go",
				"(res.NUMAs == 0 || !r.Release.has(hintsOfDeviceNUMAs))",
				"(res.NUMAs == 0 || len(res.Devices) < 3 || !r.Release.has(hintsOfDeviceNUMAs))"},
		}, ""},
		{"smt-readmission", "36", "37", "38", []fault{
			{"free CPUs count reserved siblings", at + "hazard.go",
				"most, free := u.risk.cpus, u.cpus-u.halves; smt", "most, free := u.risk.cpus, u.cpus; smt"},
		}, nil, ""},
		{"spread-share", "36", "37", "38", nil, []fault{
			{"a group less from each", at + "spread.go",
				"share = min(share, p.free.AndLen(p.m.NUMAs()[numa].CPUs)/group*group)",
				"share = min(share, max(0, p.free.AndLen(p.m.NUMAs()[numa].CPUs)/group*group-group))"},
			{"half groups count", at + "spread.go",
				"share = min(share, p.free.AndLen(p.m.NUMAs()[numa].CPUs)/group*group)",
				"share = min(share, p.free.AndLen(p.m.NUMAs()[numa].CPUs))"},
		}, ""},
		{"spread-socket", "36", "37", "38", nil, []fault{
			{"even ones before those of a socket", at + "socket.go",
				"one && !b.oneSocket || one == b.oneSocket && deviation", "deviation"},
			{"the last of equals", at + "socket.go",
				"deviation < b.deviation {", "deviation <= b.deviation {"},
		}, ""},
		{"pod-level-sharers", "36", "37", "38", nil, []fault{
			{"such containers keep what they request", at + "podlevel.go",
				"c.MilliCPU, c.Memory, c.unpinned = 0, nil, r.", "c.unpinned = r."},
			{"nothing may be left for others", at + "podlevel.go",
				"return shared && used >= all", "return shared && used > all"},
			{"init containers keep their CPUs", at + "podlevel.go", "case c.Kind != Init:", "default:"},
			{"a pod's fraction of a byte counts", at + "podlevel.go",
				"all.unpinned = all.fraction() >= 0", "all.unpinned = false"},
		}, "+PodLevelResourceManagers"},
	} {
		begins := `Name: "` + r.rule + `", Since: `
		add := func(release string, f fault) {
			f.name = r.rule + ": " + f.name
			out = append(out, judgedFault{f, testsOfRelease("1." + release + r.gate)})
		}
		add(r.first, fault{"begins a release late", table, begins + r.first, begins + r.next})
		add(r.last, fault{"begins a release early", table, begins + r.first, begins + r.last})
		for _, f := range r.old {
			add(r.last, f)
		}
		for _, f := range r.new {
			add(r.first, f)
		}
	}
	return out
}

// testsOfRelease returns the checks with the managers of a release: the scenario files, and then random machines.
func testsOfRelease(release string) []check {
	flags := []string{"-diff.release", release, "-diff.n", "60000"}
	return []check{
		{"./lab/kubelet", "TestScenarioFilesAreWhatTheManagersDo", "scenario ",
			regexp.MustCompile(`(?m)^ +--- FAIL: TestScenarioFiles\w*/([\w.]+/\w+)`), flags},
		{"./lab/kubelet", "TestPlaceAgreesWithTheManagers", release + ", ",
			regexp.MustCompile(`(?m)^.*?(seed \d+: [a-z].*)$`), flags},
	}
}
