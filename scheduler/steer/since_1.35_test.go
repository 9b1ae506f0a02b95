//go:build !upto1.34

package steer_test

import upstream "k8s.io/kube-scheduler/framework"

func (c *cluster) DeviceClassResolver() upstream.DeviceClassResolver { return classes{c} }

func (d *dra) DeviceClassResolver() upstream.DeviceClassResolver { return draClasses{d} }
