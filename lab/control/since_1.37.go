//go:build !upto1.36

package control

import (
	"context"

	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// watchKeys makes stream watch the keys in [from, to), from the first revision of the store on. It has the signature
// of etcd 3.7.
func watchKeys(stream mvcc.WatchStream, from, to []byte) error {
	const auto, first = 0, 1 // the stream chooses an id
	_, err := stream.Watch(context.Background(), auto, from, to, first)
	return err
}
