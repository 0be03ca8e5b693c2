package intercept

import (
	"encoding/binary"
	"net"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Registers that rules compute in.
const (
	register  = unix.NFT_REG_1
	portStore = unix.NFT_REG_2
)

// replaceTable makes our table that of the targets, in one transaction: no packet sees a part of it, and with an error it is as it
// was.
func replaceTable(targets []Target) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	t := c.AddTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	c.DelTable(t) // which fails only if it is not there
	t = c.AddTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	chain := c.AddChain(&nftables.Chain{
		Name: "intercept", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityMangle,
	})
	add := func(parts ...[]expr.Any) {
		r := &nftables.Rule{Table: t, Chain: chain}
		for _, p := range parts {
			r.Exprs = append(r.Exprs, p...)
		}
		c.AddRule(r)
	}
	add(ofThisHost(), verdict(expr.VerdictReturn))
	add(ofOurSocket(), setMark(), verdict(expr.VerdictAccept))
	for _, target := range targets {
		add(matching(target), deliver(target), setMark(), verdict(expr.VerdictAccept))
	}
	return c.Flush()
}

// removeTable removes our table if it is there.
func removeTable() error {
	c, t, err := findTable()
	if err != nil || t == nil {
		return err
	}
	c.DelTable(t)
	return ignoreMissing(c.Flush())
}

func hasTable() (bool, error) {
	_, t, err := findTable()
	return t != nil, err
}

// findTable finds our table; nil: there is none.
func findTable() (*nftables.Conn, *nftables.Table, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, nil, err
	}
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return c, nil, ignoreMissing(err)
	}
	for _, t := range tables {
		if t.Name == tableName {
			return c, t, nil
		}
	}
	return c, nil, nil
}

func verdict(kind expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: kind}} }

// ofThisHost is: fib daddr type { local, broadcast, anycast, multicast }. What there is no route to is as good as any other
// destination.
func ofThisHost() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: register, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Byteorder{SourceRegister: register, DestRegister: register, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Range{
			Op: expr.CmpOpEq, Register: register,
			FromData: binaryutil.BigEndian.PutUint32(unix.RTN_LOCAL), ToData: binaryutil.BigEndian.PutUint32(unix.RTN_MULTICAST),
		},
	}
}

// ofOurSocket is: meta l4proto tcp, socket transparent 1. Members answer a client's address where we have connected from it.
func ofOurSocket() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Socket{Key: expr.SocketKeyTransparent, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{1}},
	}
}

// setMark sets our bit of the mark: meta mark set meta mark | bit.
func setMark() []expr.Any {
	bit := uint32(mark)
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(^bit), Xor: binaryutil.NativeEndian.PutUint32(bit),
		},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: register},
	}
}

// matching is the family, the network, the protocol and the port of a target.
func matching(t Target) []expr.Any {
	family, offset, size := byte(nftables.TableFamilyIPv4), uint32(16), uint32(net.IPv4len)
	if t.Network.Addr().Is6() {
		family, offset, size = byte(nftables.TableFamilyIPv6), 24, net.IPv6len
	}
	list := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{family}},
	}
	if bits := t.Network.Bits(); bits > 0 {
		list = append(list,
			&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
			&expr.Bitwise{
				SourceRegister: register, DestRegister: register, Len: size,
				Mask: net.CIDRMask(bits, int(size)*8), Xor: make([]byte, size),
			},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: t.Network.Masked().Addr().AsSlice()})
	}
	protocol := byte(unix.IPPROTO_TCP)
	if t.UDP {
		protocol = unix.IPPROTO_UDP
	}
	list = append(list,
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{protocol}})
	if t.Port != 0 {
		list = append(list,
			&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binary.BigEndian.AppendUint16(nil, t.Port)})
	}
	return list
}

// deliver is: tproxy to :port.
func deliver(t Target) []expr.Any {
	family := byte(nftables.TableFamilyIPv4)
	if t.Network.Addr().Is6() {
		family = byte(nftables.TableFamilyIPv6)
	}
	return []expr.Any{
		&expr.Immediate{Register: portStore, Data: binary.BigEndian.AppendUint16(nil, t.Local)},
		&expr.TProxy{Family: family, TableFamily: byte(nftables.TableFamilyINet), RegPort: portStore},
	}
}
