package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"syscall"
	"time"

	"bigpipe/cmd/bench/internal/traffic"
)

// childCommand is the first argument of this program where it is a load or a member of its own, in a process of its own
// so that its processor time is not the proxy's.
const childCommand = "child"

// readyLine is printed by a load that is held when its connections are open.
const readyLine = "ready\n"

// endIdle ends the idle load.
const endIdle = syscall.SIGTERM

// runChild is: child origin|exchanges|sessions|streams|datagrams|idle|slow|records|fill|attack FLAGS.
func runChild(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("child: origin, exchanges, sessions, streams, datagrams, idle, slow, records, fill or attack")
	}
	if args[0] == "records" || args[0] == "fill" || args[0] == "attack" {
		return runRecords(args, stdout)
	}
	var load traffic.Load
	var target, sources, addresses string
	f := flag.NewFlagSet("child "+args[0], flag.ContinueOnError)
	f.StringVar(&target, "target", "", "address:port of the proxy")
	f.StringVar(&sources, "sources", "", "addresses that connections come from")
	f.StringVar(&addresses, "addresses", "", "address:port list of the origin")
	f.IntVar(&load.Parallel, "parallel", 1, "connections")
	f.IntVar(&load.Threads, "threads", 1, "threads")
	f.DurationVar(&load.Duration, "duration", time.Second, "length")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	var err error
	if args[0] == "origin" {
		return serveOrigin(ctx, addresses, load.Threads)
	}
	if load.Target, err = netip.ParseAddrPort(target); err != nil {
		return err
	}
	for _, word := range splitList(sources) {
		addr, err := netip.ParseAddr(word)
		if err != nil {
			return err
		}
		load.Sources = append(load.Sources, addr)
	}
	ready := func() error {
		_, err := io.WriteString(stdout, readyLine)
		return err
	}
	var result traffic.Result
	switch args[0] {
	case "exchanges":
		result, err = traffic.Exchanges(ctx, load)
	case "sessions":
		load.Sessions = clientCount
		result, err = traffic.Exchanges(ctx, load)
	case "streams":
		result, err = traffic.Streams(ctx, load)
	case "datagrams":
		result, err = traffic.Datagrams(ctx, load)
	case "idle":
		return traffic.HoldIdle(ctx, load, ready)
	case "slow":
		slow, err := traffic.SlowClients(ctx, load, ready)
		if err != nil {
			return err
		}
		return slow.Write(stdout)
	default:
		return fmt.Errorf("unknown child %q", args[0])
	}
	if err != nil {
		return err
	}
	return result.Write(stdout)
}

func serveOrigin(ctx context.Context, addresses string, threads int) error {
	var addrs []netip.AddrPort
	for _, word := range splitList(addresses) {
		addr, err := netip.ParseAddrPort(word)
		if err != nil {
			return err
		}
		addrs = append(addrs, addr)
	}
	origin, err := traffic.Listen(addrs, threads)
	if err != nil {
		return err
	}
	return origin.Serve(ctx)
}
