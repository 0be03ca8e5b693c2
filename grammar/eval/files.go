package eval

import (
	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// CodeFile is a file that a statement names and that cannot be read.
const CodeFile = "file"

// CheckFiles returns the faults of the files that the classes of statements name, and of those that cannot be read. Nothing else is
// looked at.
func CheckFiles(statements []*grammar.Statement, o Options) []*pb.Diagnostic {
	e := &evaluator{options: o, statements: statements, classFiles: map[string]*pb.ClassContents{}}
	e.attachAll(statements)
	e.arrange()
	return e.diagnostics
}

// attachAll returns the statements with what the files of their classes hold. What it does not change is shared with the caller.
func (e *evaluator) attachAll(statements []*grammar.Statement) []*grammar.Statement {
	attached := make([]*grammar.Statement, len(statements))
	for i, s := range statements {
		attached[i] = s
		if s.Object.GetClass().GetFile() != "" && !s.Faulty {
			c := *s
			c.Object = config.Clone(s.Object)
			c.Object.GetClass().Contents = e.contents(s)
			attached[i] = &c
		}
	}
	return attached
}

// contents reads the file of a class among those that came with the text. The faults of a file are noted once.
func (e *evaluator) contents(s *grammar.Statement) *pb.ClassContents {
	name := s.Object.GetClass().GetFile()
	if contents := e.classFiles[name]; contents != nil {
		return contents
	}
	text, sent := e.options.Files[name]
	if !sent {
		why := e.options.Unreadable[name]
		if why == "" {
			why = "its contents did not come with the text"
		}
		e.fault(fileAt(s), CodeFile, "%s: file %s: %s", config.Title(s.Key), name, why)
		return nil
	}
	contents, diagnostics := grammar.ParseClassFile(name, text)
	e.diagnostics = append(e.diagnostics, diagnostics...)
	e.classFiles[name] = contents
	return contents
}

// fileAt is where a class names its file.
func fileAt(s *grammar.Statement) at {
	for _, a := range s.Object.ObjectMeta().GetAttributes() {
		if a.GetAttribute() == "file" {
			p := config.Position(s.Position)
			p.Line, p.Column = a.GetLine(), a.GetColumn()
			return at{p, max(1, a.GetLength())}
		}
	}
	return keyAt(s)
}
