// A server whose TCP is gVisor's, on a TUN device: GET /NAME answers with a file of a directory.
//
//	tandem-gvisor-server DEVICE ADDRESS DIRECTORY [CONGESTION]
//
// It makes the device in the present network namespace and says "ready" once it listens on port 80. What it sends leaves by that device.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/link/tun"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const (
	nic  = 1
	mtu  = 1500
	port = 80
	// As large as the lab's Linux servers may use: the window does not limit.
	largestBuffer = 32 << 20
)

func fail(what string, err any) {
	fmt.Fprintf(os.Stderr, "tandem-gvisor-server: %s: %v\n", what, err)
	os.Exit(1)
}

func check(what string, err tcpip.Error) {
	if err != nil {
		fail(what, err)
	}
}

func newStack(device string, address tcpip.Address, congestion string) *stack.Stack {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	sack := tcpip.TCPSACKEnabled(true)
	check("SACK", s.SetTransportProtocolOption(tcp.ProtocolNumber, &sack))
	control := tcpip.CongestionControlOption(congestion)
	check("congestion control "+congestion, s.SetTransportProtocolOption(tcp.ProtocolNumber, &control))
	buffer := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: largestBuffer, Max: largestBuffer}
	check("send buffer", s.SetTransportProtocolOption(tcp.ProtocolNumber, &buffer))

	fd, err := tun.Open(device)
	if err != nil {
		fail(device, err)
	}
	endpoint, err := fdbased.New(&fdbased.Options{FDs: []int{fd}, MTU: mtu})
	if err != nil {
		fail(device, err)
	}
	check(device, s.CreateNIC(nic, endpoint))
	check("address", s.AddProtocolAddress(nic, tcpip.ProtocolAddress{
		Protocol: ipv4.ProtocolNumber, AddressWithPrefix: address.WithPrefix()}, stack.AddressProperties{}))
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	return s
}

func serve(connection net.Conn, directory string) {
	defer connection.Close()
	reader := bufio.NewReader(connection)
	request, err := reader.ReadString('\n')
	if err != nil {
		return
	}
	for line := request; strings.TrimSpace(line) != ""; {
		if line, err = reader.ReadString('\n'); err != nil {
			return
		}
	}
	words := strings.Fields(request)
	if len(words) < 2 || words[0] != "GET" {
		fmt.Fprint(connection, "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return
	}
	file, err := os.Open(filepath.Join(directory, filepath.Base(words[1])))
	if err != nil {
		fmt.Fprint(connection, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return
	}
	fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", about.Size())
	io.Copy(connection, file)
}

func main() {
	if len(os.Args) < 4 || len(os.Args) > 5 {
		fmt.Fprintln(os.Stderr, "usage: tandem-gvisor-server DEVICE ADDRESS DIRECTORY [reno|cubic]")
		os.Exit(2)
	}
	congestion := "reno"
	if len(os.Args) == 5 {
		congestion = os.Args[4]
	}
	address := tcpip.Address(net.ParseIP(os.Args[2]).To4())
	if len(address) == 0 {
		fail(os.Args[2], "not an IPv4 address")
	}
	listener, err := gonet.ListenTCP(newStack(os.Args[1], address, congestion), tcpip.FullAddress{NIC: nic, Addr: address, Port: port}, ipv4.ProtocolNumber)
	if err != nil {
		fail("listen", err)
	}
	fmt.Println("ready")
	for {
		connection, err := listener.Accept()
		if err != nil {
			fail("accept", err)
		}
		go serve(connection, os.Args[3])
	}
}
