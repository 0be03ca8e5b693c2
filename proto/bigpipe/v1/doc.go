// Package bigpipev1 is the model of the configuration and the services Admin and Dataplane, generated from the .proto files
// beside it; key.go adds the keys of objects and the words of enums, exit.go the exit statuses, service.go what both ends of a
// service agree on.
package bigpipev1
