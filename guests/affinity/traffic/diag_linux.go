package traffic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The numbers of include/uapi/linux/inet_diag.h, which golang.org/x/sys does not have.
const (
	attrInfo   = 2  // INET_DIAG_INFO, a tcp_info
	attrCgroup = 21 // INET_DIAG_CGROUP_ID
	// getTCP (TCPDIAG_GETSOCK) is the older request, for sockets of both address families. The kernel goes through the
	// sockets of all namespaces for each request, so one request per family would take twice the time.
	getTCP = 18
	// The sizes of struct inet_diag_req and struct inet_diag_msg, and the offset of the states in the former.
	requestSize, messageSize, statesAt = 60, 72, 52
)

// The offsets of the counters in a tcp_info; kernels before 4.1 have none.
var (
	ackedAt    = int(unsafe.Offsetof(unix.TCPInfo{}.Bytes_acked))
	receivedAt = int(unsafe.Offsetof(unix.TCPInfo{}.Bytes_received))
)

// readTimeout bounds how long one read waits for the kernel's answer.
var readTimeout = unix.Timeval{Sec: 2}

// Sockets is the Reader of this kernel. If path is empty, it reads the namespace of the process; other namespaces
// need CAP_SYS_ADMIN.
func Sockets(path string, limit int, each func(Socket)) (whole bool, err error) {
	fd, err := open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }() // all answers have been read
	if err := ask(fd); err != nil {
		return false, fmt.Errorf("ask the kernel for TCP sockets: %w", err)
	}
	if whole, err = receive(fd, make([]byte, 64<<10), limit, each); err != nil {
		return false, fmt.Errorf("read TCP sockets from the kernel (does it have tcp_diag?): %w", err)
	}
	return whole, nil
}

// ProcessTime returns the CPU time that the process has used; it is a Clock for a Meter. It includes what other
// goroutines use meanwhile, so the Meter's steps may be shorter than its budget.
func ProcessTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// open returns a socket for requests about the network namespace at path; "" is the namespace of the process.
func open(path string) (fd int, err error) {
	if path == "" {
		return diag()
	}
	// A socket belongs to the namespace in which its thread is when it makes the socket. Afterwards the thread returns
	// to its own namespace. If it cannot, it stays locked to the goroutine, and ends with it.
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var returned bool
		if fd, returned, err = enter(path); returned {
			runtime.UnlockOSThread()
		}
	}()
	<-done
	return fd, err
}

// enter makes the socket in the namespace at path. returned is true if the thread is in its own namespace afterwards.
func enter(path string) (fd int, returned bool, err error) {
	own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, true, fmt.Errorf("open the thread's network namespace: %w", err)
	}
	defer func() { _ = unix.Close(own) }()
	other, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, true, fmt.Errorf("open the namespace: %w", err)
	}
	defer func() { _ = unix.Close(other) }()
	if err := unix.Setns(other, unix.CLONE_NEWNET); err != nil {
		return -1, true, fmt.Errorf("enter the namespace: %w", err)
	}
	fd, err = diag()
	return fd, unix.Setns(own, unix.CLONE_NEWNET) == nil, err
}

// diag opens a sock_diag socket in the network namespace of the calling thread.
func diag() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return -1, fmt.Errorf("open a sock_diag socket: %w", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &readTimeout); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("bound the time of a sock_diag socket: %w", err)
	}
	return fd, nil
}

// ask requests the established TCP sockets, each with its tcp_info.
func ask(fd int) error {
	out := make([]byte, unix.SizeofNlMsghdr+requestSize)
	binary.NativeEndian.PutUint32(out[0:], uint32(len(out)))
	binary.NativeEndian.PutUint16(out[4:], getTCP)
	binary.NativeEndian.PutUint16(out[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request := out[unix.SizeofNlMsghdr:]
	request[3] = 1 << (attrInfo - 1)
	binary.NativeEndian.PutUint32(request[statesAt:], 1<<unix.BPF_TCP_ESTABLISHED)
	return unix.Sendto(fd, out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// receive reads the kernel's answer and calls each for every socket in it, up to limit sockets. It returns false if
// the answer has more.
func receive(fd int, buffer []byte, limit int, each func(Socket)) (whole bool, err error) {
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false, err
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(rest))
			if size < unix.SizeofNlMsghdr || size > len(rest) {
				return false, fmt.Errorf("a message of %d bytes, of which %d are there", size, len(rest))
			}
			body := rest[unix.SizeofNlMsghdr:size]
			switch binary.NativeEndian.Uint16(rest[4:]) {
			case unix.NLMSG_DONE:
				return true, nil
			case unix.NLMSG_ERROR:
				if len(body) < 4 {
					return false, errors.New("an error without a number")
				}
				return false, unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
			case getTCP, unix.SOCK_DIAG_BY_FAMILY:
				if limit <= 0 {
					return false, nil
				}
				if s, ok := parse(body); ok {
					each(s)
					limit--
				}
			}
			rest = rest[min(align(size), len(rest)):]
		}
	}
}

// align returns the size that a netlink message or attribute of n bytes takes up.
func align(n int) int { return (n + 3) &^ 3 }

// parse reads a struct inet_diag_msg with its attributes. ok is false if the socket has no counters.
func parse(b []byte) (s Socket, ok bool) {
	if len(b) < messageSize {
		return Socket{}, false
	}
	address := func(port, addr int) netip.AddrPort {
		var ip netip.Addr
		if b[0] == unix.AF_INET {
			ip = netip.AddrFrom4([4]byte(b[addr:]))
		} else {
			ip = netip.AddrFrom16([16]byte(b[addr:]))
		}
		return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[port:]))
	}
	s.Local, s.Remote = address(4, 8), address(6, 24)
	s.Cookie = uint64(binary.NativeEndian.Uint32(b[44:])) | uint64(binary.NativeEndian.Uint32(b[48:]))<<32
	for rest := b[messageSize:]; len(rest) >= unix.SizeofNlAttr; {
		size := int(binary.NativeEndian.Uint16(rest))
		if size < unix.SizeofNlAttr || size > len(rest) {
			return Socket{}, false
		}
		value := rest[unix.SizeofNlAttr:size]
		switch kind := binary.NativeEndian.Uint16(rest[2:]); {
		case kind == attrInfo && len(value) >= receivedAt+8:
			s.Bytes = binary.NativeEndian.Uint64(value[ackedAt:]) + binary.NativeEndian.Uint64(value[receivedAt:])
			ok = true
		case kind == attrCgroup && len(value) >= 8:
			s.Cgroup = binary.NativeEndian.Uint64(value)
		}
		rest = rest[min(align(size), len(rest)):]
	}
	return s, ok
}
