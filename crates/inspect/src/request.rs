//! What of a request matters: its method, its path, and whether it may come from a web site.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str;

/// A request that is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Such as `GET`.
    pub method: &'a str,
    /// Without what follows a question mark.
    pub path: &'a str,
    /// What follows the question mark.
    query: &'a str,
    /// What it knows: `Authorization: Bearer TOKEN`.
    pub token: Option<&'a str>,
    /// Whether a browser says that another site asks.
    pub(crate) is_foreign: bool,
}

// === impl Request ===

impl Request<'_> {
    /// What the query says of this name: `a b` for `?name=a%20b`. `None`: nothing, or no text.
    pub fn argument(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.into_iter().find(|(its_name, _)| *its_name == name)?;
        decoded(value)
    }
}

/// What stands behind percent signs. A plus sign is a space.
fn decoded(value: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), value.bytes());
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(match byte {
            b'%' => u8::try_from(digit()? * 16 + digit()?).ok()?,
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Reads the head of a request, up to and with its empty line.
///
/// # Errors
/// The fault of the request, in words.
pub(crate) fn parse(head: &[u8]) -> Result<Request<'_>, &'static str> {
    let head = str::from_utf8(head).map_err(|_| "the head is not text")?;
    let mut lines = head.split("\r\n");
    let (method, target) = request_line(lines.next().unwrap_or_default())?;
    let (mut host, mut token, mut is_foreign) = (None, None, false);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or("a line of the head has no colon")?;
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err("a name in the head is not a name");
        }
        let value = value.trim_matches([' ', '\t']);
        if value.contains(|c: char| c.is_control() && c != '\t') {
            return Err("the head has control characters");
        }
        if name.eq_ignore_ascii_case("host") && host.replace(value).is_some() {
            return Err("there are two hosts");
        }
        if name.eq_ignore_ascii_case("authorization") {
            token = value.strip_prefix("Bearer ");
        }
        if name.eq_ignore_ascii_case("sec-fetch-site") {
            is_foreign = !["same-origin", "none"].contains(&value);
        }
    }
    if !is_loopback(host.ok_or("there is no host")?) {
        return Err("the host is not a loopback address");
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Request { method, path, query, token, is_foreign })
}

fn request_line(line: &str) -> Result<(&str, &str), &'static str> {
    let mut words = line.split(' ');
    let parts = (words.next(), words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some(version), None) = parts else {
        return Err("the request has not three words");
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err("the method is not a word");
    }
    if !["HTTP/1.1", "HTTP/1.0"].contains(&version) {
        return Err("the protocol is not HTTP/1.1");
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the path has characters that paths have not");
    }
    Ok((method, target))
}

/// Whether a byte may be in a method or in the name of a header.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a host, perhaps with a port, is this machine by a name that no web site can have.
fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, "")) => return is_loopback_v6(address),
            Some((address, port)) if is_loopback_v6(address) => ("localhost", port),
            _ => return false,
        },
        None => host.find(':').map_or((host, ""), |colon| host.split_at(colon)),
    };
    let is_port = |text: &str| {
        text.strip_prefix(':').is_some_and(|digits| {
            digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
        })
    };
    let is_ours = name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    is_ours && (port.is_empty() || is_port(port))
}

fn is_loopback_v6(address: &str) -> bool {
    address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(head: &str) -> Result<&str, &'static str> {
        parse(head.as_bytes()).map(|request| request.path)
    }

    #[test]
    fn hosts_of_this_machine_are_told_from_others() {
        for host in
            ["localhost", "LocalHost:80", "127.0.0.1", "127.9.8.7:65535", "[::1]", "[::1]:1"]
        {
            assert!(is_loopback(host), "{host}");
        }
        let others = [
            "",
            ":80",
            "example.com",
            "localhost.example.com",
            "localhost:",
            "localhost:65536",
            "localhost:+80",
            "localhost:80:80",
            "localhost.",
            "127.0.0.1.example.com",
            "127.1",
            "0.0.0.0",
            "10.0.0.1",
            "::1",
            "[::1",
            "[::1]80",
            "[::1]:",
            "[::]",
            "[::ffff:127.0.0.1]",
            "user@localhost",
        ];
        for host in others {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn what_is_not_a_request_is_refused() {
        let host = "Host: localhost\r\n\r\n";
        assert_eq!(path_of(&format!("GET /a?b HTTP/1.1\r\n{host}")), Ok("/a"));
        assert_eq!(path_of(&format!("GET /a HTTP/1.0\r\nx:\r\n{host}")), Ok("/a"));
        let bad = [
            "\r\n\r\n".to_owned(),
            format!("\r\n{host}"),
            format!("GET\r\n{host}"),
            format!("GET /\r\n{host}"),
            format!("GET / HTTP/2\r\n{host}"),
            format!("GET /  HTTP/1.1\r\n{host}"),
            format!(" / HTTP/1.1\r\n{host}"),
            format!("G\u{0}T / HTTP/1.1\r\n{host}"),
            format!("GET /\u{e9} HTTP/1.1\r\n{host}"),
            format!("GET / HTTP/1.1\r\nno colon\r\n{host}"),
            format!("GET / HTTP/1.1\r\n: no name\r\n{host}"),
            format!("GET / HTTP/1.1\r\nx: a\n y\r\n{host}"),
            format!("GET / HTTP/1.1\r\n folded: a\r\n{host}"),
            format!("GET / HTTP/1.1\r\nhost: localhost\r\n{host}"),
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n".to_owned(),
        ];
        for head in bad {
            assert!(path_of(&head).is_err(), "{head:?}");
        }
        assert!(parse(b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n").is_err());
    }

    #[test]
    fn what_a_query_and_a_token_say_is_read() {
        let head = "POST /a?one=a%20b+%c3%A9%26&two=&one=again HTTP/1.1\r\nHost: localhost\r\n\
                    authorization: Bearer tea time\r\n\r\n";
        let request = parse(head.as_bytes()).unwrap();
        assert_eq!((request.path, request.token), ("/a", Some("tea time")));
        assert_eq!(request.argument("one").as_deref(), Some("a b \u{e9}&"));
        assert_eq!(
            (request.argument("two").as_deref(), request.argument("three")),
            (Some(""), None)
        );
        for (value, text) in
            [("%", None), ("%4", None), ("%zz", None), ("%ff", None), ("%41", Some("A"))]
        {
            assert_eq!(decoded(value).as_deref(), text, "{value}");
        }
    }

    #[test]
    fn another_site_is_known_by_what_the_browser_says() {
        for (site, is_foreign) in [("none", false), ("same-origin", false), ("cross-site", true)] {
            let head = format!("GET / HTTP/1.1\r\nHost: [::1]:9\r\nSec-Fetch-Site: {site}\r\n\r\n");
            assert_eq!(parse(head.as_bytes()).map(|it| it.is_foreign), Ok(is_foreign), "{site}");
        }
    }
}
