// The judges. This file names the module; what a judge is built of is in the file of its release, such as 1.32.mod,
// which make judge-modules writes. See the comment of package main.
module github.com/tenon-numa/tenon/lab/kubelet/judge

go 1.26.0
