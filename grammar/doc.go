// Package grammar reads and writes the language of bigip.conf and bigpipe.
//
// A text is cut into tokens and statements by the package's own lexer; participle then reads one statement at a time, and what it
// says is checked word by word against two tables: one of attributes, one of commands. Parsing, printing, completion, help and the
// manual pages all follow from them. Parse and ParseCommand turn text into statements and diagnostics, Format turns objects into
// text, Complete and Help serve a person at a keyboard. What a statement means for a configuration is for package eval.
package grammar
