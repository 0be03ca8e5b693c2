package main

import (
	"errors"
	"fmt"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// fileAction says what is done with the file of -f, -l or -s.
type fileAction int

const (
	noFile fileAction = iota
	loadFile
	mergeFile
	saveFile
)

// options is a parsed command line. Options end at the first command word.
type options struct {
	address  string // "": the default
	output   pb.OutputFormat
	commands []string // of -c, in order
	check    bool     // -d
	file     fileAction
	path     string // of -f, -l, -s; "" with -s: standard output
	reset    bool   // -r
	numeric  bool   // -n
	version  bool
	help     bool
	tlsCert  string
	tlsKey   string
	tlsCA    string
	words    []string
}

// errUsage marks faults of the command line itself (exit status 2).
var errUsage = errors.New("see bigpipe -?")

func usageError(format string, args ...any) error {
	return fmt.Errorf(format+"; %w", append(args, errUsage)...)
}

// parseOptions reads args without the program's name. A file may be parted from its option by others: -f -d FILE.
func parseOptions(args []string) (*options, error) {
	o := &options{output: pb.OutputFormat_OUTPUT_FORMAT_TEXT}
	wantsFile := "" // the option that still waits for its file
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			o.words = args[1:]
			break
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			if wantsFile == "" {
				o.words = args
				break
			}
			o.path, wantsFile, args = arg, "", args[1:]
			continue
		}
		name, value, attached := strings.Cut(arg, "=")
		args = args[1:]
		if attached && switches[name] {
			return nil, usageError("option %s takes no value", name)
		}
		take := func() (string, error) {
			if attached {
				return value, nil
			}
			if len(args) == 0 {
				return "", usageError("option %s needs a value", name)
			}
			v := args[0]
			args = args[1:]
			return v, nil
		}
		if err := o.set(name, take, &wantsFile); err != nil {
			return nil, err
		}
	}
	if wantsFile == "-f" || wantsFile == "-l" {
		return nil, usageError("option %s needs a file", wantsFile)
	}
	return o, o.conflict()
}

// conflict names options that do not go together: none of them is ignored silently.
func (o *options) conflict() error {
	switch {
	case o.file != noFile && len(o.words) > 0:
		return usageError("unexpected %q after the file", o.words[0])
	case o.file != noFile && len(o.commands) > 0:
		return usageError("-c does not go with -f, -l or -s")
	case len(o.commands) > 0 && len(o.words) > 0:
		return usageError("unexpected %q after -c", o.words[0])
	case o.reset && (o.file != noFile || len(o.commands) > 0 || len(o.words) > 0):
		return usageError("-r stands alone; -f resets too")
	case o.check && (o.file == saveFile || o.reset):
		return usageError("-d checks a file or commands; it does not go with -s or -r")
	}
	return nil
}

// switches are the options without a value.
var switches = map[string]bool{
	"-d": true, "-r": true, "-n": true, "-v": true, "--version": true, "-h": true, "-help": true, "--help": true, "-?": true,
	"-f": true, "-l": true, "-s": true, // their file is the next operand
}

// set takes one option; take reads its value.
func (o *options) set(name string, take func() (string, error), wantsFile *string) error {
	var err error
	switch name {
	case "-a", "--address":
		o.address, err = take()
	case "-o", "--output":
		var format string
		if format, err = take(); err == nil {
			err = o.setOutput(format)
		}
	case "-c", "--command":
		var command string
		if command, err = take(); err == nil {
			o.commands = append(o.commands, command)
		}
	case "-d":
		o.check = true
	case "-f", "-l", "-s":
		if o.file != noFile {
			return usageError("option %s does not go with another of -f, -l, -s", name)
		}
		o.file = map[string]fileAction{"-f": loadFile, "-l": mergeFile, "-s": saveFile}[name]
		*wantsFile = name
	case "-r":
		o.reset = true
	case "-n":
		o.numeric = true
	case "-v", "--version":
		o.version = true
	case "-h", "-help", "--help", "-?":
		o.help = true
	case "--tls-cert":
		o.tlsCert, err = take()
	case "--tls-key":
		o.tlsKey, err = take()
	case "--tls-ca":
		o.tlsCA, err = take()
	default:
		return usageError("unknown option %s", name)
	}
	return err
}

func (o *options) setOutput(format string) error {
	switch format {
	case "text":
		o.output = pb.OutputFormat_OUTPUT_FORMAT_TEXT
	case "json":
		o.output = pb.OutputFormat_OUTPUT_FORMAT_JSON
	default:
		return usageError("unknown output format %q: text or json", format)
	}
	return nil
}

const usage = `usage: bigpipe [options] [command words ...]

  -a, --address ADDR   mgmtd's admin address, unix:///path or host:port (default $BIGPIPE_ADDRESS,
                       else unix:///run/bigpipe/mgmtd.sock, else unix://$XDG_RUNTIME_DIR/bigpipe/mgmtd.sock)
  -o, --output FORMAT  text or json
  -c, --command CMD    run CMD and go on to the next -c
  -d                   check only (with -f FILE or with command words); works without mgmtd
  -f FILE              reset and load FILE ("-" is standard input)
  -l FILE              merge FILE
  -s [FILE]            print or save the running configuration
  -r                   reset configuration and counters
  -n                   numbers instead of service names
  -v                   version
  -h, -?               this help; bigpipe COMMAND -? explains one command
  --tls-cert FILE --tls-key FILE --tls-ca FILE   for a TCP address

Without command words: a shell on a terminal, else commands from standard input.
Besides the commands of the language: watch [SECONDS] COMMAND, completion bash|zsh, lab FILE.
`
