package control

import (
	"errors"
	"slices"
	"sync"
)

// Change is one write to the store: an object that was created, changed or deleted.
type Change struct {
	// Key is where the API server keeps the object, such as /registry/pods/default/NAME.
	Key string
	// Value is the object as the API server stores it; of a deletion it is empty.
	Value []byte
	// Version is the resource version that the API server gives the object by this write.
	Version int64
	// Deleted is true where the object is no longer in the store.
	Deleted bool
}

// FollowStore calls each with every write to the keys under a prefix, in the order of their versions, from the first
// write on. It reads etcd and not the API server, so that it neither stalls nor skips writes while that restarts.
// each is called from one goroutine; stop ends the calls and returns when the last one has returned.
func (p *Plane) FollowStore(prefix string, each func(Change)) (stop func(), err error) {
	if prefix == "" || p.etcd == nil {
		return nil, errors.New("follow the store: no prefix, or the control plane does not run")
	}
	stream := p.etcd.Server.Watchable().NewWatchStream()
	const auto, first = 0, 1 // the stream chooses an id; the first revision of the store
	if _, err := stream.Watch(auto, []byte(prefix), after(prefix), first); err != nil {
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

// after returns the first key behind all keys with the prefix.
func after(prefix string) []byte {
	end := slices.Clone([]byte(prefix))
	end[len(end)-1]++ // prefixes are text, so no byte is the greatest
	return end
}
