// A function without a body (dropin.go) needs an assembly file in its package.
