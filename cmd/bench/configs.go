package main

import "text/template"

// The configurations do equal work: persistence by a cookie, the client's address or the session ID of TLS, the same members, no logs.

// bigpipe: what a user gets by default. PerReq asks for a decision and a cookie for each request, as the peers make them.
var bigpipeConfig = template.Must(template.New("bigip.conf").Parse(`pool bench {
   lb_mode round_robin
{{- if .HTTP}}
   persist_mode cookie
   cookie_mode insert
{{- else if .TLS}}
   persist_mode ssl
   ssl_timeout 300
{{- else}}
   persist_mode simple
   simple_timeout 300
{{- end}}
{{- range .Members}}
   member {{.}}
{{- end}}
}
{{- if .UDP}}
service {{.Listen.Port}} udp enable
{{- end}}
virtual {{.Listen}} {
   use pool bench
{{- if .PerReq}}
   oneconnect enable
{{- end}}
}
`))

// HAProxy: no reuse of a server connection by another client, because our default has none either.
var haproxyConfig = template.Must(template.New("haproxy.cfg").Parse(`global
   nbthread {{.Threads}}
   maxconn {{.MaxConn}}
defaults
   timeout connect 5s
   timeout client 300s
   timeout server 300s
   mode {{if .HTTP}}http{{else}}tcp{{end}}
listen bench
   bind {{.Listen}}
   balance roundrobin
{{- if .HTTP}}
{{- if not .PerReq}}
   http-reuse never
{{- end}}
   cookie BIGipServerbench insert indirect
{{- range $i, $m := .Members}}
   server m{{$i}} {{$m}} cookie m{{$i}}
{{- end}}
{{- else}}
{{- if .TLS}}
   stick-table type binary len 32 size 1m expire 300s
   acl clienthello req.ssl_hello_type 1
   acl serverhello res.ssl_hello_type 2
   tcp-request inspect-delay 5s
   tcp-request content accept if clienthello
   tcp-response content accept if serverhello
   stick on req.payload_lv(43,1) if clienthello
   stick store-response res.payload_lv(43,1) if serverhello
{{- else}}
   stick-table type ip size 1m expire 300s
   stick on src
{{- end}}
{{- range $i, $m := .Members}}
   server m{{$i}} {{$m}}
{{- end}}
{{- end}}
`))

// nginx has no cookie insert; the same follows from a map of the cookie to a member and a header. Its persistence by the
// client's address is a hash without records.
var nginxConfig = template.Must(template.New("nginx.conf").Parse(`daemon off;
{{- if .Root}}
user root;
{{- end}}
worker_processes {{.Threads}};
worker_rlimit_nofile {{.Descriptors}};
pid {{.Dir}}/nginx.pid;
{{- if and .Module (not .HTTP)}}
load_module {{.Module}};
{{- end}}
events { worker_connections {{.WorkerConnections}}; }
{{- if .HTTP}}
http {
   access_log off;
   client_body_temp_path {{.Dir}}/body;
   proxy_temp_path {{.Dir}}/proxy;
   fastcgi_temp_path {{.Dir}}/fastcgi;
   uwsgi_temp_path {{.Dir}}/uwsgi;
   scgi_temp_path {{.Dir}}/scgi;
   keepalive_timeout 300s;
   keepalive_requests 1000000000;
   tcp_nodelay on;
   proxy_buffers 8 16k;
   proxy_max_temp_file_size 0;
   upstream bench {
{{- range .Members}}
      server {{.}};
{{- end}}
{{- if not .OneShot}}
      keepalive 4096;
      keepalive_requests 1000000000;
{{- end}}
   }
{{- range $i, $m := .Members}}
   upstream m{{$i}} {
      server {{$m}};
{{- if not $.OneShot}}
      keepalive 4096;
      keepalive_requests 1000000000;
{{- end}}
   }
{{- end}}
   map $cookie_BIGipServerbench $chosen {
{{- range $i, $m := .Members}}
      m{{$i}} m{{$i}};
{{- end}}
      default bench;
   }
   map $chosen:$upstream_addr $set_cookie {
{{- range $i, $m := .Members}}
      bench:{{$m}} "BIGipServerbench=m{{$i}}; path=/";
{{- end}}
      default "";
   }
   server {
      listen {{.Listen}} backlog=4096;
      location / {
         proxy_pass http://$chosen;
         proxy_http_version 1.1;
         proxy_set_header Connection "";
         proxy_set_header Host $http_host;
         add_header Set-Cookie $set_cookie;
      }
   }
}
{{- else}}
stream {
   upstream bench {
      hash $remote_addr;
{{- range .Members}}
      server {{.}};
{{- end}}
   }
   server {
      listen {{.Listen}} {{if .UDP}}udp{{if gt .Threads 1}} reuseport{{end}}{{else}}backlog=4096{{end}};
      proxy_pass bench;
   }
}
{{- end}}
`))

// originConfig is the HTTP member with large files, and a tiny answer for /.
var originConfig = template.Must(template.New("origin.conf").Parse(`daemon off;
{{- if .Root}}
user root;
{{- end}}
worker_processes {{.Threads}};
worker_rlimit_nofile {{.Descriptors}};
pid {{.Dir}}/nginx.pid;
events { worker_connections {{.WorkerConnections}}; }
http {
   access_log off;
   client_body_temp_path {{.Dir}}/body;
   proxy_temp_path {{.Dir}}/proxy;
   fastcgi_temp_path {{.Dir}}/fastcgi;
   uwsgi_temp_path {{.Dir}}/uwsgi;
   scgi_temp_path {{.Dir}}/scgi;
   keepalive_timeout 3600s;
   keepalive_requests 1000000000;
   tcp_nodelay on;
   sendfile on;
   open_file_cache max=16;
   server {
{{- range .Members}}
      listen {{.}} backlog=4096{{if gt $.Threads 1}} reuseport{{end}};
{{- end}}
      root {{.Dir}}/files;
      location = / { return 200 "ok\n"; }
   }
}
`))
