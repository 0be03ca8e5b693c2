package mgmtd

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "bigpipe/proto/bigpipe/v1"
)

// failure is a dataplane that did not do what it was asked.
type failure struct {
	// dataplane is "" where the failure is that of all.
	dataplane string
	// refusal is the code with which it refused; OK where it gave no answer at all.
	refusal codes.Code
	reason  string
}

// failure says why a dataplane's call failed. It is errSilent where the call was given up.
func (s *Server) failure(p *pusher, err error) *failure {
	if errors.Is(err, errSilent) {
		return &failure{dataplane: p.name, reason: noAnswer(s.askTimeout)}
	}
	f := &failure{dataplane: p.name, reason: p.reason(err, s.askTimeout)}
	switch code := status.Code(err); code {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange:
		f.refusal = code
	}
	return f
}

func (f *failure) String() string {
	if f.dataplane == "" {
		return f.reason
	}
	return "dataplane " + f.dataplane + ": " + f.reason
}

// diagnosticCode is the code of the diagnostic that tells of it.
func (f *failure) diagnosticCode() string {
	switch f.refusal {
	case codes.OK:
		return codeUnanswered
	case codes.NotFound:
		return codeNotFound
	}
	return codeRefused
}

// failures are the dataplanes that did not do what all were asked.
type failures struct {
	asked int
	list  []*failure
}

// none: all dataplanes have answered. A command has been carried out, and a list is whole, only then.
func (f failures) none() bool { return len(f.list) == 0 }

// total: there were dataplanes, and none has answered. Only then a query has failed: what some say stands without the others.
func (f failures) total() bool { return f.asked > 0 && len(f.list) == f.asked }

// causes are the failures to tell of. What all dataplanes refuse alike is one, which names none of them.
func (f failures) causes() []*failure {
	if !f.total() || f.list[0].refusal == codes.OK {
		return f.list
	}
	first := f.list[0]
	for _, other := range f.list[1:] {
		if other.refusal != first.refusal || other.reason != first.reason {
			return f.list
		}
	}
	return []*failure{{refusal: first.refusal, reason: first.reason}}
}

// status is the RPC error that tells of the failures; nil for none. A refusal keeps its code, silence is ABORTED.
func (f failures) status() error {
	if f.none() {
		return nil
	}
	var texts []string
	code := f.list[0].refusal
	for _, cause := range f.causes() {
		texts = append(texts, cause.String())
		if cause.refusal != code {
			code = codes.OK
		}
	}
	if code == codes.OK {
		code = codes.Aborted
	}
	return status.Error(code, strings.Join(texts, "\n"))
}

// unanswered are the dataplanes that an answer lacks.
func (f failures) unanswered() []*pb.Unanswered {
	var list []*pb.Unanswered
	for _, x := range f.list {
		list = append(list, &pb.Unanswered{Dataplane: x.dataplane, Reason: x.reason})
	}
	return list
}

// queryStatus is status for a query; see unanswered for what an answer lacks that stands.
func (f failures) queryStatus() error {
	if !f.total() {
		return nil
	}
	return f.status()
}

// diagnostics tell of the failures.
func (f failures) diagnostics(severity pb.Severity) []*pb.Diagnostic {
	var list []*pb.Diagnostic
	for _, cause := range f.causes() {
		list = append(list, note(severity, cause.diagnosticCode(), "%s", cause))
	}
	return list
}
