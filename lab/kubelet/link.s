// A function without a body (newDeviceManager) needs an assembly file in its package.
