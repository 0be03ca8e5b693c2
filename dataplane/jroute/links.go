package jroute

// Links says what links of a response get, so that a client without cookies stays at its member (rule J-23): in
// "/app/page;jsessionid=ID" the session is followed by Separator and Route.
type Links struct {
	// Parameter is the name of the path parameter that holds the session, case as it is written: "jsessionid".
	Parameter string
	// Separator stands between session and route.
	Separator string
	// Route names the member that answered.
	Route string
	// Body: links in the body get it too, not only those in the head.
	Body bool
}
