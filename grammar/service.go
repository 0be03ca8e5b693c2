package grammar

import (
	_ "embed"
	"strconv"
	"strings"
)

// serviceTable holds a name and a number a line, the same on every host. The first name of a number is the one that is shown.
//
//go:embed services.txt
var serviceTable string

var (
	servicePorts = make(map[string]uint16)
	portServices = make(map[uint16]string)
	serviceNames = loadServices()
)

func loadServices() []string {
	for line := range strings.Lines(serviceTable) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		port, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			panic("grammar: services.txt: " + line)
		}
		servicePorts[name] = uint16(port)
		if _, found := portServices[uint16(port)]; !found {
			portServices[uint16(port)] = name
		}
	}
	return sortedKeys(servicePorts)
}

// ParseService returns the number of a service that is given by name or number; *, any and 0 are all services.
func ParseService(text string) (uint16, bool) {
	if text == "*" || text == "any" {
		return 0, true
	}
	if isNumber(text) {
		n, err := strconv.ParseUint(text, 10, 16)
		return uint16(n), err == nil
	}
	port, ok := servicePorts[text]
	return port, ok
}

// ServiceName returns the name of a service for display; its number where it has none, "any" for all services.
func ServiceName(port uint16) string {
	if port == 0 {
		return "any"
	}
	if name, ok := portServices[port]; ok {
		return name
	}
	return strconv.Itoa(int(port))
}
