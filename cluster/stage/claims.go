package stage

import (
	"encoding/json"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
)

// Claims returns the devices that drivers publish, and who holds them by claims (DRA), as they are; nil if that was not
// read. Simulations neither place nor move devices of claims.
func (s *Stage) Claims() *document.Claims { return s.claims }

// decodeDevices adds a slice or a claim to the devices.
func decodeDevices(d *kube.Devices, kind string, text []byte) error {
	if kind == "ResourceSlice" {
		d.Slices = append(d.Slices, resourcev1.ResourceSlice{})
		return json.Unmarshal(text, &d.Slices[len(d.Slices)-1])
	}
	d.Claims = append(d.Claims, resourcev1.ResourceClaim{})
	return json.Unmarshal(text, &d.Claims[len(d.Claims)-1])
}
