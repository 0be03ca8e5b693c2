package grammar

import pb "bigpipe/proto/bigpipe/v1"

// The attribute tables of what the old unit's network was made of. Nothing here acts on them.
var Interfaces, Ipaliases, Trunks, Stps, Vlans, Vlangroups, Selfs *Table

func init() {
	Interfaces = legacyTable(KindInterface, "interface", &pb.Interface{}, nil, []*Attribute{
		{Words: w("dest"), Release: Release3, Value: ValueSwitch, Field: "dest", Help: "look for virtual servers in packets that come in here"},
		{Words: w("source"), Release: Release3, Value: ValueSwitch, Field: "source", Help: "translate source addresses of packets that come in here"},
		{Words: w("source_translation"), Release: Release3, Value: ValueSwitch, Field: "source_translation", Help: "translate the source addresses of nodes"},
		{Words: w("adminport"), Release: Release3, Value: ValueSwitch, Switch: [2]string{"open", "lockdown"}, Field: "adminport_open", Help: "access to the unit's own ports"},
		{Words: w("mac_masq"), Release: Legacy, Value: ValuePlain, Field: "mac_masq", Help: "link address that both units share"},
		{Words: w("failsafe"), Release: Legacy, Value: ValueWord, Default: "disarm", Field: "failsafe", Help: "give up when the interface is silent"},
		{Words: w("timeout"), Release: Legacy, Value: ValueSeconds, Field: "timeout", Help: "seconds of silence that the fail-safe waits"},
		{Words: w("media"), Release: Release4, Value: ValuePlain, Field: "media", Help: "type of the link: auto, 100baseTX, ..."},
		{Words: w("duplex"), Release: Release4, Value: ValuePlain, Field: "duplex", Help: "full, half or auto"},
	})
	Ipaliases = legacyTable(KindIpalias, "ipalias", &pb.Ipalias{}, w("interface"), []*Attribute{
		netmaskRow(Release3), broadcastRow(Release3), unitRow(Release3, "unit that owns the address"),
	})
	Trunks = legacyTable(KindTrunk, "trunk", &pb.Trunk{}, nil, []*Attribute{
		{
			Words: w("define"), Aliases: [][]string{w("interfaces"), w("interfaces add")}, Release: Release4, Value: valueForm, Field: "interfaces",
			form: listForm("INTERFACE ...", "interfaces", readName), Help: "the interfaces that are joined",
		},
	})
	Stps = legacyTable(KindStp, "stp", &pb.Stp{}, nil, []*Attribute{
		{
			Words: w("interfaces add"), Aliases: [][]string{w("interfaces"), w("interface")}, Opposite: w("interfaces delete"), Release: Release4,
			Value: valueForm, Field: "interfaces", form: listForm("INTERFACE ...", "interfaces", readName), Adds: true, Help: "interfaces of the domain",
		},
		stateRow("enable", "disable", "enabled", "spanning tree of the domain", false),
	})
	Vlans = legacyTable(KindVlan, "vlan", &pb.Vlan{}, nil, []*Attribute{
		{Words: w("tag"), Release: Release4, Value: ValueNumber, Max: 4095, Field: "tag", Help: "number of the VLAN"},
		{
			Words: w("interfaces add"), Aliases: [][]string{w("interfaces")}, Opposite: w("interfaces delete"), Release: Release4, Value: valueForm,
			Field: "interfaces", form: listForm("INTERFACE ...", "interfaces", readName), Adds: true, Help: "interfaces of the VLAN",
		},
		{
			Words: w("interfaces add tagged"), Aliases: [][]string{w("interfaces tagged"), w("tagged")}, Release: Release4, Value: valueForm,
			Field: "tagged_interfaces", form: listForm("INTERFACE ...", "tagged_interfaces", readName), Adds: true, Help: "interfaces whose frames carry the tag",
		},
		{
			Words: w("failsafe"), Release: Release4, Value: ValueSwitch, Switch: [2]string{"arm", "disarm"}, Default: "disarm", Field: "failsafe_arm",
			Help: "give up when the VLAN is silent",
		},
		{Words: w("timeout"), Release: Release4, Value: ValueSeconds, Field: "timeout", Help: "seconds of silence that the fail-safe waits"},
		{Words: w("mac_masq"), Release: Release4, Value: ValuePlain, Field: "mac_masq", Help: "link address that both units share"},
		{Words: w("adminport"), Release: Release4, Value: ValueSwitch, Switch: [2]string{"open", "lockdown"}, Field: "adminport_open", Help: "access to the unit's own ports"},
	})
	Vlangroups = legacyTable(KindVlangroup, "vlangroup", &pb.Vlangroup{}, nil, []*Attribute{
		{
			Words: w("vlans add"), Aliases: [][]string{w("vlans"), w("interfaces add"), w("interfaces")}, Opposite: w("vlans delete"), Release: Release4,
			Value: valueForm, Field: "vlans", form: listForm("VLAN ...", "vlans", readName), Adds: true, Names: KindVlan, Help: "the VLANs that are joined",
		},
		{Words: w("mac_masq"), Release: Release4, Value: ValuePlain, Field: "mac_masq", Help: "link address that both units share"},
	})
	Selfs = legacyTable(KindSelf, "self", &pb.SelfAddress{}, nil, []*Attribute{
		{Words: w("vlan"), Release: Release4, Value: ValuePlain, Names: KindVlan, Field: "vlan", Help: "VLAN of the address"},
		netmaskRow(Release4), broadcastRow(Release4), unitRow(Release4, "unit that owns the address"),
		{Words: w("floating"), Release: Release4, Value: ValueSwitch, Default: "disable", Field: "floating", Help: "the address goes to the active unit"},
		{Words: w("snat automap"), Release: Release4, Value: ValueFlag, Default: "disable", Field: "snat_automap", Help: "translate source addresses to this one"},
	})
}

func netmaskRow(r Release) *Attribute {
	return &Attribute{Words: w("netmask"), Release: r, Value: ValueMask, Field: "netmask", Help: "mask of the address"}
}

func broadcastRow(r Release) *Attribute {
	return &Attribute{Words: w("broadcast"), Release: r, Value: ValueAddress, Field: "broadcast", Help: "broadcast address"}
}

func unitRow(r Release, help string) *Attribute {
	return &Attribute{Words: w("unit"), Release: r, Value: ValueNumber, Max: 255, Default: "1", Field: "unit", Help: help}
}
