package config

import (
	"slices"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// checkOwn checks the attributes of one object by themselves.
func (c *checker) checkOwn(o *pb.Object) {
	key := o.Key()
	switch k := o.GetKind().(type) {
	case *pb.Object_Pool:
		c.checkPool(key, k.Pool)
	case *pb.Object_Virtual:
		c.checkVirtual(key, k.Virtual)
	case *pb.Object_Rule:
		c.checkRule(key, k.Rule)
	case *pb.Object_Node:
		c.checkLimit(key, k.Node.GetMeta(), k.Node.Limit)
	case *pb.Object_VirtualAddress:
		c.checkLimit(key, k.VirtualAddress.GetMeta(), k.VirtualAddress.Limit)
		c.checkMask(key, k.VirtualAddress.GetMeta(), "netmask", k.VirtualAddress.Netmask)
	case *pb.Object_Global:
		c.checkGlobal(key, k.Global)
	case *pb.Object_Service:
		c.checkLimit(key, k.Service.GetMeta(), k.Service.Limit)
	}
}

func (c *checker) checkLimit(key string, meta *pb.Meta, limit *uint32) {
	if limit != nil && *limit > MaxLimit {
		c.fault(key, attribute(meta, "limit"), CodeValue, "%s: limit %d is not between 0 and %d", Title(key), *limit, MaxLimit)
	}
}

// checkMask checks a dotted mask: contiguous, IPv4.
func (c *checker) checkMask(key string, meta *pb.Meta, name string, mask *string) {
	if mask == nil {
		return
	}
	if *mask == "" {
		c.fault(key, attribute(meta, name), CodeValue, "%s: %s is empty", Title(key), name)
	} else if _, err := maskBits(*mask); err != nil {
		c.fault(key, attribute(meta, name), CodeValue, "%s: %s %s", Title(key), name, err)
	}
}

func (c *checker) checkPool(key string, p *pb.Pool) {
	c.checkMembers(key, p)
	c.checkMask(key, p.GetMeta(), "simple_mask", p.SimpleMask)
	c.checkMask(key, p.GetMeta(), "sticky_mask", p.StickyMask)
	for _, m := range []struct {
		name string
		bits *uint32
	}{{"simple_mask6", p.SimpleMask6}, {"sticky_mask6", p.StickyMask6}} {
		if m.bits != nil && *m.bits > 128 {
			c.fault(key, attribute(p.GetMeta(), m.name), CodeValue, "%s: %s %d is not between 0 and 128", Title(key), m.name, *m.bits)
		}
	}
	if h := p.HeaderInsert; h != nil {
		name, _, found := strings.Cut(*h, ":")
		if !found || !isToken(name) || strings.ContainsAny(*h, "\r\n\x00") {
			c.fault(key, attribute(p.GetMeta(), "header insert"), CodeValue, "%s: header insert %q is not of the form NAME:VALUE", Title(key), *h)
		}
	}
	c.checkCookie(key, p)
	c.checkToken(key, p)
	c.checkJroute(key, p)
	if p.GetSslFallback() == pb.SslFallback_SSL_FALLBACK_SIMPLE && p.GetPersistMode() == pb.PersistMode_PERSIST_MODE_SIMPLE {
		c.fault(key, attribute(p.GetMeta(), "ssl_fallback"), CodeConflict,
			"%s: ssl_fallback simple is what persist_mode simple does already", Title(key))
	}
	c.warnPool(key, p)
}

func (c *checker) checkMembers(key string, p *pb.Pool) {
	first := make(map[string]*pb.Member, len(p.GetMembers()))
	for _, m := range p.GetMembers() {
		if earlier := first[m.GetAddress()]; earlier != nil {
			d := c.fault(key, attribute(m.GetMeta()), CodeDuplicate, "%s: member %s is given twice", Title(key), m.GetAddress())
			d.Related = attribute(earlier.GetMeta()).related("the first one")
			continue
		}
		first[m.GetAddress()] = m
		if m.Limit != nil && *m.Limit > MaxLimit {
			c.fault(key, attribute(m.GetMeta(), "limit"), CodeValue, "%s: member %s: limit %d is not between 0 and %d",
				Title(key), m.GetAddress(), *m.Limit, MaxLimit)
		}
	}
}

func (c *checker) checkCookie(key string, p *pb.Pool) {
	meta := p.GetMeta()
	if p.GetPersistMode() == pb.PersistMode_PERSIST_MODE_COOKIE && p.GetCookieMode() == pb.CookieMode_COOKIE_MODE_HASH &&
		p.GetCookieHashName() == "" {
		c.fault(key, attribute(meta, "cookie_mode"), CodeMissing, "%s: cookie_mode hash needs cookie_hash_name", Title(key))
	}
	if p.GetCookieSamesite() == pb.CookieSamesite_COOKIE_SAMESITE_NONE && !p.GetCookieSecure() {
		c.fault(key, attribute(meta, "cookie_samesite"), CodeConflict,
			"%s: cookie_samesite none needs cookie_secure enable: browsers refuse the cookie otherwise", Title(key))
	}
	for _, a := range []struct {
		name  string
		value *string
	}{{"cookie_name", p.CookieName}, {"cookie_only_when", p.CookieOnlyWhen}, {"cookie_hash_name", p.CookieHashName}} {
		if a.value != nil && !isToken(*a.value) {
			c.fault(key, attribute(meta, a.name), CodeValue, "%s: %s %q is not the name of a cookie", Title(key), a.name, *a.value)
		}
	}
	for _, a := range []struct {
		name  string
		value *string
	}{{"cookie_path", p.CookiePath}, {"cookie_domain", p.CookieDomain}} {
		if a.value != nil && !isAttributeValue(*a.value) {
			c.fault(key, attribute(meta, a.name), CodeValue, "%s: %s %q cannot stand in a cookie", Title(key), a.name, *a.value)
		}
	}
}

// checkToken checks rule G-20 as far as one pool goes, and G-16.
func (c *checker) checkToken(key string, p *pb.Pool) {
	meta := p.GetMeta()
	if p.TokenTimeoutMs != nil && *p.TokenTimeoutMs == 0 {
		c.fault(key, attribute(meta, "token_timeout"), CodeValue, "%s: token_timeout must be more than 0", Title(key))
	}
	if n := p.TokenName; n != nil && (len(*n) > 256 || !isToken(*n)) {
		c.fault(key, attribute(meta, "token_name"), CodeValue,
			"%s: token_name %q is not a name of 1 to 256 letters, digits and !#$%%&'*+-.^_`|~", Title(key), *n)
	}
	if n := p.TokenPath; n != nil && (len(*n) > 1024 || !strings.HasPrefix(*n, "/") || !isAttributeValue(*n)) {
		c.fault(key, attribute(meta, "token_path"), CodeValue,
			"%s: token_path is not a path of 1 to 1024 characters that begins with /", Title(key))
	}
	if p.GetPersistMode() != pb.PersistMode_PERSIST_MODE_TOKEN {
		return
	}
	if p.GetTokenLifetime() == pb.TokenLifetime_TOKEN_LIFETIME_PERMANENT && p.TokenTimeoutMs == nil {
		c.fault(key, attribute(meta, "token_lifetime"), CodeMissing, "%s: token_lifetime permanent needs token_timeout", Title(key))
	}
	if p.GetTokenSamesite() == pb.CookieSamesite_COOKIE_SAMESITE_NONE && p.GetTokenSecure() != pb.TokenSecure_TOKEN_SECURE_ENABLE {
		c.fault(key, attribute(meta, "token_samesite"), CodeConflict,
			"%s: token_samesite none needs token_secure enable: browsers refuse the cookie otherwise", Title(key))
	}
	if p.GetTokenType() != pb.TokenType_TOKEN_TYPE_HEADER {
		return
	}
	if p.TokenName == nil {
		c.fault(key, attribute(meta, "token_type"), CodeMissing, "%s: token_type header needs token_name", Title(key))
	}
	if slices.Contains(messageHeaders, strings.ToLower(p.GetTokenName())) {
		c.fault(key, attribute(meta, "token_name"), CodeValue, "%s: token_name %s is a header of HTTP itself", Title(key), p.GetTokenName())
	}
	if p.TokenPath != nil {
		c.fault(key, attribute(meta, "token_path"), CodeConflict, "%s: token_path does not go with token_type header", Title(key))
	}
	if p.TokenLifetime != nil {
		c.fault(key, attribute(meta, "token_lifetime"), CodeConflict, "%s: token_lifetime does not go with token_type header", Title(key))
	}
}

// checkJroute checks what stands in cookies, paths and redirections of a jroute pool, and that the routes of its members differ.
func (c *checker) checkJroute(key string, p *pb.Pool) {
	meta := p.GetMeta()
	for _, a := range []struct {
		name  string
		value *string
	}{{"jroute_cookie", p.JrouteCookie}, {"jroute_session_cookie", p.JrouteSessionCookie}} {
		if a.value != nil && !isToken(*a.value) {
			c.fault(key, attribute(meta, a.name), CodeValue, "%s: %s %q is not the name of a cookie", Title(key), a.name, *a.value)
		}
	}
	if JrouteCookieOf(p) == JrouteSessionCookieOf(p) {
		c.fault(key, attribute(meta, "jroute_cookie", "jroute_session_cookie"), CodeConflict,
			"%s: jroute_cookie and jroute_session_cookie are both %q", Title(key), JrouteCookieOf(p))
	}
	if n := p.JrouteSuffix; n != nil && (*n == "" || !isCookieValue(*n)) {
		c.fault(key, attribute(meta, "jroute_suffix"), CodeValue, "%s: jroute_suffix %q cannot stand in a cookie", Title(key), *n)
	}
	if n := p.JrouteErrorUrl; n != nil && !isLocation(*n) {
		c.fault(key, attribute(meta, "jroute_error_url"), CodeValue,
			"%s: jroute_error_url %q is neither a path nor begins with http:// or https://", Title(key), *n)
	}
	for _, path := range p.GetJrouteContext() {
		if !strings.HasPrefix(path, "/") || !isAttributeValue(path) || strings.ContainsAny(path, " ?#") {
			c.fault(key, attribute(meta, "jroute_context"), CodeValue, "%s: jroute_context %q is not a path that begins with /", Title(key), path)
		}
	}
	c.checkRoutes(key, p)
}

// checkRoutes checks the routes of a pool's members: each can stand in a cookie and in a path, and no two are equal.
func (c *checker) checkRoutes(key string, p *pb.Pool) {
	first := make(map[string]string, len(p.GetMembers()))
	for _, m := range p.GetMembers() {
		if m.Route != nil && !isRoute(*m.Route) {
			c.fault(key, attribute(m.GetMeta(), "route"), CodeValue,
				"%s: member %s: route %q holds something else than letters, digits and !$&'*+-.^_`|~", Title(key), m.GetAddress(), *m.Route)
			continue
		}
		if p.GetPersistMode() != pb.PersistMode_PERSIST_MODE_JROUTE && m.Route == nil {
			continue
		}
		route := RouteOf(m)
		if earlier, dup := first[route]; dup && earlier != m.GetAddress() {
			c.fault(key, attribute(m.GetMeta(), "route"), CodeDuplicate, "%s: members %s and %s have the same route %q",
				Title(key), earlier, m.GetAddress(), route)
			continue
		}
		first[route] = m.GetAddress()
	}
}

// messageHeaders are those that say where a message ends and what becomes of its connection and its cookies.
var messageHeaders = []string{
	"connection", "content-length", "cookie", "expect", "host", "keep-alive", "proxy-connection", "set-cookie", "te", "trailer",
	"transfer-encoding", "upgrade",
}

// isToken reports whether text is a token of HTTP, the form of names of headers and cookies.
func isToken(text string) bool {
	return text != "" && !slices.ContainsFunc([]byte(text), func(b byte) bool {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
			return false
		}
		return strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0
	})
}

// isRoute reports whether text can name a member in a cookie and in the parameter of a path.
func isRoute(text string) bool { return isToken(text) && !strings.ContainsAny(text, "#%") }

// isCookieValue reports whether text can be a part of a cookie's value, and of a parameter in a path.
func isCookieValue(text string) bool {
	return !slices.ContainsFunc([]byte(text), func(b byte) bool { return b <= ' ' || b >= 0x7f || strings.IndexByte(`",;/?#\`, b) >= 0 })
}

// isLocation reports whether text is a place to redirect to.
func isLocation(text string) bool {
	if slices.ContainsFunc([]byte(text), func(b byte) bool { return b <= ' ' || b == 0x7f }) {
		return false
	}
	return strings.HasPrefix(text, "/") || strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// isAttributeValue reports whether text can be the value of an attribute in Set-Cookie.
func isAttributeValue(text string) bool {
	return text != "" && !slices.ContainsFunc([]byte(text), func(b byte) bool { return b < 0x20 || b == 0x7f || b == ';' })
}
