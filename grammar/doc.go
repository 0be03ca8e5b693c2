// Package grammar reads and writes the language of bigip.conf and bigpipe.
//
// A text is cut into tokens and statements by the package's own lexer, and what a statement says is checked word by word against two
// tables: one of attributes, one of commands; participle reads the bodies of rules. Parsing, printing, completion, help and the manual
// pages all follow from the tables. Parse and ParseCommand turn text into statements and diagnostics, Format turns objects into
// text, Complete and Help serve a person at a keyboard. What a statement means for a configuration is for package eval.
package grammar
