package monitor

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"bigpipe/store/config"
)

// Addresses says where to look instead of the addresses of the configuration; the error says why it must not.
type Addresses interface {
	// Local maps an address and port, LocalAddr an address alone.
	Local(netip.AddrPort) (netip.AddrPort, error)
	LocalAddr(netip.Addr) (netip.Addr, error)
}

// kinds are the templates that can be carried out.
var kinds = map[string]Kind{
	"icmp": ICMP, "gateway": ICMP, "tcp": TCP, "tcp_echo": Echo, "udp": UDP, "http": HTTP, "https": HTTPS, "external": External,
	"health_checker": Healer,
}

// usualPorts are where checks look that are given no port.
var usualPorts = map[Kind]uint16{HTTP: 80, HTTPS: 443, Echo: 7, Healer: 80}

// Compile returns how a node, ADDRESS or ADDRESS:PORT, is checked; without instances where it is not. An address that is none
// gives the zero value.
func Compile(view config.View, name string, addresses Addresses) Node {
	n := Node{Addr: parse(name)}
	if !n.Addr.IsValid() {
		return Node{}
	}
	monitors, enabled := config.MonitorsOf(view, name)
	for _, monitor := range monitors {
		in := Instance{Monitor: monitor, Enabled: enabled && config.MonitorEnabled(view, monitor)}
		if err := in.compile(view, name, addresses); err != nil {
			in.Spec, in.Fault = Spec{}, err.Error()
		}
		n.Instances = append(n.Instances, in)
	}
	return n
}

// parse reads ADDRESS or ADDRESS:PORT; a bare address has port 0.
func parse(text string) netip.AddrPort {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a.Unmap(), 0)
	}
	a, _ := netip.ParseAddrPort(text)
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

func (in *Instance) compile(view config.View, node string, addresses Addresses) error {
	m, template := config.MonitorSettings(view, in.Monitor)
	kind, known := kinds[template]
	switch {
	case template == "":
		return fmt.Errorf("it is derived from no template")
	case !known:
		return fmt.Errorf("the template %s is not supported", template)
	}
	if err := in.locate(view, node, kind, addresses); err != nil {
		return err
	}
	s := &in.Spec
	if m.GetTransparent() && in.Target.Addr() != parse(node).Addr() {
		if err := s.through(parse(node).Addr(), kind, addresses); err != nil {
			return fmt.Errorf("transparent: %w", err)
		}
	}
	s.Kind, s.Interval, s.Timeout = kind, seconds(m.GetInterval(), 5), seconds(m.GetTimeout(), 16)
	switch kind {
	case TCP, UDP:
		s.Send, s.Recv, s.Reverse = m.GetSend(), m.GetRecv(), m.GetReverse()
	case HTTP, HTTPS:
		s.Send, s.Recv, s.Reverse = m.GetSend(), m.GetRecv(), m.GetReverse()
		s.Username, s.Password = m.GetUsername(), m.GetPassword()
		s.Host = hostOf(in.Target, usualPorts[kind])
		s.ask(m.GetUrl())
	case Healer:
		s.Active, s.Retries = m.GetActiveHealthcheck(), int(max(m.GetHealthcheckRetries(), 1))
		if parse(node).Port() == 0 && !s.Active {
			return fmt.Errorf("health_checker is for members, ADDRESS:PORT: traffic says when it is to look")
		}
		s.Send, s.Host = "GET /", hostOf(in.Target, usualPorts[kind])
		s.ask(m.GetUrl())
	case External:
		s.Program, s.Args = m.GetRun(), strings.Join(m.GetArgs(), "\x00")
		if s.Program == "" {
			return fmt.Errorf("external needs run PROGRAM")
		}
	}
	if _, err := regexp.Compile(s.Recv); err != nil {
		return fmt.Errorf("recv: %w", err)
	}
	return nil
}

// through has it look through a node.
func (s *Spec) through(node netip.Addr, kind Kind, addresses Addresses) (err error) {
	switch kind {
	case TCP, Echo, HTTP, HTTPS:
	default:
		return errors.New("it is for tcp, tcp_echo, http and https")
	}
	if s.Via, err = addresses.LocalAddr(node); err != nil {
		return err
	}
	switch {
	case s.Via.IsLoopback() || s.Dial.Addr().IsLoopback():
		return fmt.Errorf("nothing can be sent through %s to %s", s.Via, s.Dial.Addr())
	case s.Via.Is4() != s.Dial.Addr().Is4():
		return fmt.Errorf("%s and %s are of two kinds", s.Via, s.Dial.Addr())
	}
	return nil
}

// locate finds where to look.
func (in *Instance) locate(view config.View, node string, kind Kind, addresses Addresses) error {
	in.Target = parse(config.MonitorDestination(view, in.Monitor, node))
	if !in.Target.IsValid() {
		return fmt.Errorf("dest: no address")
	}
	var err error
	if kind == ICMP {
		var local netip.Addr
		in.Target = netip.AddrPortFrom(in.Target.Addr(), 0)
		local, err = addresses.LocalAddr(in.Target.Addr())
		in.Spec.Dial = netip.AddrPortFrom(local, 0)
		return err
	}
	if in.Target.Port() == 0 {
		in.Target = netip.AddrPortFrom(in.Target.Addr(), usualPorts[kind])
	}
	if in.Target.Port() == 0 && kind != External {
		return fmt.Errorf("dest: the address %s alone has no port to look at", node)
	}
	if in.Target.Port() == 0 {
		var local netip.Addr
		local, err = addresses.LocalAddr(in.Target.Addr())
		in.Spec.Dial = netip.AddrPortFrom(local, 0)
		return err
	}
	in.Spec.Dial, err = addresses.Local(in.Target)
	return err
}

// ask takes the page and the host from a URL.
func (s *Spec) ask(text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	if err != nil {
		return
	}
	s.Send = "GET " + u.RequestURI()
	if u.Host != "" {
		s.Host = u.Host
	}
	if u.User != nil {
		s.Username = u.User.Username()
		s.Password, _ = u.User.Password()
	}
}

// seconds is a time of the configuration; zero is the usual one.
func seconds(n, usual uint32) time.Duration {
	if n == 0 {
		n = usual
	}
	return time.Duration(n) * time.Second
}
