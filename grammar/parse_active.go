package grammar

import (
	"fmt"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// active reads active [ADDRESS:]SERVICE ["SEND" ["RECV"]].
func (cl *clause) active() {
	name, ok := cl.legacyNamed(KindActive)
	if !ok {
		return
	}
	target, _ := legacyName(KindActive, name.Value)
	object, m := newObject(KindActive, target, cl.meta())
	line := object.GetActive()
	for _, text := range []**string{&line.Send, &line.Recv} {
		if t, ok := cl.c.peek(); ok {
			cl.c.i++
			value := unquote(t)
			*text = &value
		}
	}
	cl.end()
	cl.emitObject(ActionDefine, object, cl.build(Actives, m.Interface(), object.ObjectMeta()), name)
}

// activeTarget reads [ADDRESS:]SERVICE; without an address the target is *:PORT.
func activeTarget(text string) (target, fault string) {
	if service := strings.TrimPrefix(text, "*:"); !strings.Contains(service, ":") {
		port, ok := ParseService(service)
		if !ok || port == 0 {
			return "", fmt.Sprintf("%q is neither SERVICE nor ADDRESS:SERVICE", text)
		}
		return "*:" + number(uint32(port)), ""
	}
	e, fault, _ := parseEndpoint(text)
	if fault == "" && e.port == 0 {
		fault = fmt.Sprintf("%q has no service to look at", text)
	}
	return e.String(), fault
}

// active writes the line as bigd.conf has it.
func (f *formatter) active(a *pb.Active) {
	parts := []string{"active ", strings.TrimPrefix(a.GetTarget(), "*:")}
	if a.Send != nil || a.Recv != nil {
		parts = append(parts, " ", quote(a.GetSend()))
	}
	if a.Recv != nil {
		parts = append(parts, " ", quote(a.GetRecv()))
	}
	f.line(parts...)
}
