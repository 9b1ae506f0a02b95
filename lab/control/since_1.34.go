//go:build upto1.36

package control

import (
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// watchKeys makes stream watch the keys in [from, to), from the first revision of the store on. It has the signature
// of etcd 3.6.
func watchKeys(stream mvcc.WatchStream, from, to []byte) error {
	const auto, first = 0, 1 // the stream chooses an id
	_, err := stream.Watch(auto, from, to, first)
	return err
}
