package main

import (
	"bytes"
	"fmt"
	"io"

	pb "bigpipe/proto/bigpipe/v1"
)

// documents collects the JSON documents of several commands: standard output holds one document and nothing else, and stays
// empty on failure. One command gives its own document, several an array of theirs.
type documents struct {
	list    [][]byte
	several bool
}

// add keeps one command's document; a command that printed nothing has none.
func (d *documents) add(document []byte) {
	if document = bytes.TrimSpace(document); len(document) > 0 {
		d.list = append(d.list, document)
	}
}

// writeTo prints the one document.
func (d *documents) writeTo(w io.Writer) error {
	if !d.several {
		if len(d.list) == 0 {
			return nil
		}
		_, err := fmt.Fprintf(w, "%s\n", d.list[0])
		return err
	}
	_, err := fmt.Fprintf(w, "[%s]\n", bytes.Join(d.list, []byte(",\n")))
	return err
}

// sequence runs commands one after another until one ends with a status that stops says is the end. Their JSON documents
// become one. It returns the first status that is not 0.
func (a *app) sequence(n int, command func(i int) int, stops func(status int) bool) int {
	if a.json() {
		a.documents = &documents{several: n > 1}
	}
	status := exitDone
	for i := range n {
		s := command(i)
		if status == exitDone {
			status = s
		}
		if stops(s) {
			break
		}
	}
	if a.documents != nil && (status == exitDone || status == exitNotInEffect) {
		if err := onScreen(a.stdout, a.documents.writeTo); err != nil {
			return a.fail(err)
		}
	}
	a.documents = nil
	return status
}

func (a *app) json() bool { return a.options.output == pb.OutputFormat_OUTPUT_FORMAT_JSON }
