// A function without a body (link.go) needs an assembly file in its package.
