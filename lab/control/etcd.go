package control

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"

	"github.com/tenon-numa/tenon/lab/program"
)

// quiet silences libraries that would write to the program's standard streams.
func quiet() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }

// startEtcd starts an etcd cluster of one member and returns its client URL.
func (p *Plane) startEtcd(ctx context.Context, dir string) (string, error) {
	c := embed.NewConfig()
	c.Dir = dir
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	c.UnsafeNoFsync = true // the data need not outlive the process
	c.QuotaBackendBytes = 8 << 30
	// A cluster of one elects itself; short ticks make that fast (tens of milliseconds).
	c.TickMs, c.ElectionMs = 10, 100
	client, err := freeURL()
	if err != nil {
		return "", fmt.Errorf("start etcd: %w", err)
	}
	peer, err := freeURL()
	if err != nil {
		return "", fmt.Errorf("start etcd: %w", err)
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.Name + "=" + peer.String()
	if p.etcd, err = embed.StartEtcd(c); err != nil {
		return "", fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-p.etcd.Server.ReadyNotify():
		return client.String(), nil
	case err := <-p.etcd.Err():
		return "", fmt.Errorf("start etcd: %w", err)
	case <-ctx.Done():
		return "", fmt.Errorf("wait for etcd: %w", context.Cause(ctx))
	}
}

// freeURL returns a URL with a port that is free at this moment. It cannot pass a listener on, because etcd accepts
// only URLs.
func freeURL() (url.URL, error) {
	port, err := program.FreePort()
	return url.URL{Scheme: "http", Host: net.JoinHostPort(program.Host, strconv.Itoa(port))}, err
}
