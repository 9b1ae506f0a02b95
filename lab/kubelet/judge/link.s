// Functions without a body (the shims) need an assembly file in their package.
