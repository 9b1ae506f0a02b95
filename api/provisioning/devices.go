package provisioning

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// This file reads and writes which devices of claims (DRA) are kept for a request. The details of its status have them,
// for people: the scheduler does not read them.

// DevicesOn are devices of a pool that are kept for pods of a request on a node.
type DevicesOn struct {
	Node    string   `json:"node"`
	Driver  string   `json:"driver"`
	Pool    string   `json:"pool"`
	Devices []string `json:"devices"`
}

// devicesPrefix begins the names of the details with devices, and maxDevicesDetails bounds their number. maxDetails
// bounds the number of all details, as the definition of ProvisioningRequests does.
const (
	devicesPrefix     = "tenon.sh/devices-"
	maxDevicesDetails = 8
	maxDetails        = 64
)

// SetDevices replaces in the details which devices are kept. It has to be called after SetBooked, because the number of
// details is bounded. Devices of a pool that are too many for one detail take several entries. What exceeds the bounds
// is left out.
func SetDevices(details map[string]string, list []DevicesOn) error {
	maps.DeleteFunc(details, func(name, _ string) bool { return strings.HasPrefix(name, devicesPrefix) })
	var texts []string
	size, at, most := 2, 0, min(maxDevicesDetails, maxDetails-len(details))
	write := func() {
		if len(texts) > 0 {
			details[devicesPrefix+strconv.Itoa(at)] = "[" + strings.Join(texts, ",") + "]"
			at++
		}
		texts, size = nil, 2
	}
	for _, x := range list {
		entries, err := x.split()
		if err != nil {
			return fmt.Errorf("write which devices are kept: %w", err)
		}
		for _, text := range entries {
			if size+len(text) > maxDetail {
				write()
			}
			if at >= most {
				return nil
			}
			texts, size = append(texts, text), size+len(text)+1
		}
	}
	if at < most {
		write()
	}
	return nil
}

// split returns the devices as JSON, in as many entries as it takes so that each fits into a detail. It leaves out a
// device that does not fit alone.
func (x DevicesOn) split() ([]string, error) {
	data, err := json.Marshal(x)
	switch half := len(x.Devices) / 2; {
	case err != nil:
		return nil, err
	case len(data)+2 <= maxDetail:
		return []string{string(data)}, nil
	case half == 0:
		return nil, nil
	default:
		first, second := x, x
		first.Devices, second.Devices = x.Devices[:half], x.Devices[half:]
		before, err := first.split()
		if err != nil {
			return nil, err
		}
		after, err := second.split()
		return append(before, after...), err
	}
}

// Devices reads which devices are kept. Who may write the status of a request may write anything.
func (r *Request) Devices() (out []DevicesOn, err error) {
	for at := range maxDevicesDetails {
		name := devicesPrefix + strconv.Itoa(at)
		text, has := r.Status.ProvisioningClassDetails[name]
		if !has {
			break
		}
		var some []DevicesOn
		if len(text) > maxDetail {
			return nil, fmt.Errorf("detail %s has %d bytes, at most %d", name, len(text), maxDetail)
		}
		if err := json.Unmarshal([]byte(text), &some); err != nil {
			return nil, fmt.Errorf("detail %s: %w", name, err)
		}
		out = append(out, some...)
	}
	return out, nil
}
