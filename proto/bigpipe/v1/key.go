package bigpipev1

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Key returns the object's key: its kind, a slash and its name ("pool/web", "virtual/10.0.0.1:80"), or just "global".
// An object without a kind has the key "".
func (o *Object) Key() string {
	switch k := o.GetKind().(type) {
	case *Object_Global:
		return "global"
	case *Object_Pool:
		return "pool/" + k.Pool.GetName()
	case *Object_Rule:
		return "rule/" + k.Rule.GetName()
	case *Object_Virtual:
		return "virtual/" + k.Virtual.GetAddress()
	case *Object_VirtualAddress:
		return "virtual_address/" + k.VirtualAddress.GetAddress()
	case *Object_Node:
		return "node/" + k.Node.GetAddress()
	case *Object_Service:
		return "service/" + strconv.FormatUint(uint64(k.Service.GetPort()), 10)
	case *Object_Monitor:
		return "monitor/" + k.Monitor.GetName()
	case *Object_Class:
		return "class/" + k.Class.GetName()
	case *Object_Snat:
		return "snat/" + k.Snat.GetTo()
	case *Object_Nat:
		return "nat/" + k.Nat.GetNode()
	case *Object_Proxy:
		return "proxy/" + k.Proxy.GetAddress()
	case *Object_Interface:
		return "interface/" + k.Interface.GetName()
	case *Object_Ipalias:
		return "ipalias/" + k.Ipalias.GetAddress()
	case *Object_Alias:
		return "alias/" + k.Alias.GetNode()
	case *Object_Vlan:
		return "vlan/" + k.Vlan.GetName()
	case *Object_Vlangroup:
		return "vlangroup/" + k.Vlangroup.GetName()
	case *Object_Self:
		return "self/" + k.Self.GetAddress()
	case *Object_Trunk:
		return "trunk/" + k.Trunk.GetName()
	case *Object_Stp:
		return "stp/" + k.Stp.GetName()
	case *Object_Authz:
		return "authz/" + k.Authz.GetName()
	case *Object_MonitorUse:
		return "monitor_use/" + k.MonitorUse.GetTarget()
	case *Object_Active:
		return "active/" + k.Active.GetTarget()
	case *Object_Kept:
		return "kept/" + keptName(k.Kept.GetText())
	}
	return ""
}

const (
	// longestKept is the longest text of a kept statement that names it whole, in bytes; no store has keys of any length.
	longestKept = 16 << 10
	// keptBegin is how much of a longer one stands before its checksum.
	keptBegin = 1000
)

// keptName is the text of a kept statement in one line; of a very long one its beginning and a checksum.
func keptName(text string) string {
	name := strings.Join(strings.Fields(text), " ")
	if len(name) <= longestKept {
		return name
	}
	return fmt.Sprintf("%s ... %x", strings.ToValidUTF8(name[:keptBegin], ""), sha256.Sum256([]byte(name)))
}

// SplitKey returns the kind and the name of a key; the name of "global" is "".
func SplitKey(key string) (kind, name string) {
	kind, name, _ = strings.Cut(key, "/")
	return kind, name
}

// inside is what the messages of all kinds of objects have.
type inside interface {
	protoreflect.ProtoMessage
	GetMeta() *Meta
}

// inside returns the message inside; nil when there is none.
func (o *Object) inside() inside {
	switch k := o.GetKind().(type) {
	case *Object_Global:
		return k.Global
	case *Object_Pool:
		return k.Pool
	case *Object_Rule:
		return k.Rule
	case *Object_Virtual:
		return k.Virtual
	case *Object_VirtualAddress:
		return k.VirtualAddress
	case *Object_Node:
		return k.Node
	case *Object_Service:
		return k.Service
	case *Object_Monitor:
		return k.Monitor
	case *Object_Class:
		return k.Class
	case *Object_Snat:
		return k.Snat
	case *Object_Nat:
		return k.Nat
	case *Object_Proxy:
		return k.Proxy
	case *Object_Interface:
		return k.Interface
	case *Object_Ipalias:
		return k.Ipalias
	case *Object_Alias:
		return k.Alias
	case *Object_Vlan:
		return k.Vlan
	case *Object_Vlangroup:
		return k.Vlangroup
	case *Object_Self:
		return k.Self
	case *Object_Trunk:
		return k.Trunk
	case *Object_Stp:
		return k.Stp
	case *Object_Authz:
		return k.Authz
	case *Object_MonitorUse:
		return k.MonitorUse
	case *Object_Active:
		return k.Active
	case *Object_Kept:
		return k.Kept
	}
	return nil
}

// Message returns the object inside, a *Pool for example, as a reflected message; nil when there is none.
func (o *Object) Message() protoreflect.Message {
	if m := o.inside(); m != nil {
		return m.ProtoReflect()
	}
	return nil
}

// ObjectMeta returns the Meta of the object inside; nil when it has none.
func (o *Object) ObjectMeta() *Meta {
	if m := o.inside(); m != nil {
		return m.GetMeta()
	}
	return nil
}

// EnumWord returns the bigip.conf word of an enum value: LB_MODE_ROUND_ROBIN is round_robin. The zero value is "".
func EnumWord(e protoreflect.Enum) string {
	v := e.Descriptor().Values().ByNumber(e.Number())
	if v == nil || e.Number() == 0 {
		return ""
	}
	return ValueWord(e.Descriptor(), v)
}

// EnumWords returns the words of all values of an enum but the zero value, in their order.
func EnumWords(d protoreflect.EnumDescriptor) []string {
	var words []string
	for i := range d.Values().Len() {
		if v := d.Values().Get(i); v.Number() != 0 {
			words = append(words, ValueWord(d, v))
		}
	}
	return words
}

// ParseEnum returns the number of the value that a word names; false when there is none.
func ParseEnum(d protoreflect.EnumDescriptor, word string) (protoreflect.EnumNumber, bool) {
	for i := range d.Values().Len() {
		if v := d.Values().Get(i); v.Number() != 0 && ValueWord(d, v) == word {
			return v.Number(), true
		}
	}
	return 0, false
}

// ValueWord returns the bigip.conf word of a value of an enum: its name without the prefix that all of them share, in lower case.
func ValueWord(d protoreflect.EnumDescriptor, v protoreflect.EnumValueDescriptor) string {
	prefix := strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
}
