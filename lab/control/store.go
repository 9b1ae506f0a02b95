package control

import (
	"errors"
	"slices"
	"sync"
)

// Change is one write to the store: an object that was created, changed or deleted.
type Change struct {
	// Key is the API server's key of the object, such as /registry/pods/default/NAME.
	Key string
	// Value is the object in the API server's storage format; empty for a deletion.
	Value []byte
	// Version is the resource version of the object after this write.
	Version int64
	// Deleted is true if the object is no longer in the store.
	Deleted bool
}

// FollowStore calls a function for every write to the keys under a prefix, in the order of their versions, from the
// first write on. All calls come from one goroutine. FollowStore reads etcd, so it neither stalls nor skips writes
// while the API server restarts. The function stop ends the calls and returns when the last one has returned.
func (p *Plane) FollowStore(prefix string, each func(Change)) (stop func(), err error) {
	if prefix == "" || p.etcd == nil {
		return nil, errors.New("follow the store: no prefix, or the control plane does not run")
	}
	stream := p.etcd.Server.Watchable().NewWatchStream()
	if err := watchKeys(stream, []byte(prefix), prefixEnd(prefix)); err != nil {
		stream.Close()
		return nil, err
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			case r, ok := <-stream.Chan():
				if !ok {
					return
				}
				for _, e := range r.Events {
					each(Change{Key: string(e.Kv.Key), Value: e.Kv.Value, Version: e.Kv.ModRevision, Deleted: len(e.Kv.Value) == 0})
				}
			}
		}
	}()
	return sync.OnceFunc(func() { close(ended); <-done; stream.Close() }), nil
}

// prefixEnd returns the first key after all keys with the prefix.
func prefixEnd(prefix string) []byte {
	end := slices.Clone([]byte(prefix))
	end[len(end)-1]++ // prefixes are text, so no byte is the greatest
	return end
}
