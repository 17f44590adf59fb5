//! Requests that are answered with another address in the place of a response: where the client is to go, by what the
//! rule says and what the request was for.

use std::io::Write;

use super::{PathRewrite, Request};
use crate::http::Status;

/// Sends clients elsewhere. What is not said stays as the request has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub scheme: Option<RedirectScheme>,
    /// Without port.
    pub host: Option<Box<str>>,
    pub port: Option<u16>,
    pub path: Option<PathRewrite>,
    pub status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectScheme {
    Http,
    Https,
}

impl RedirectScheme {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Http => b"http",
            Self::Https => b"https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The request names no host, and neither does the rule (HTTP/1.0 only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHost;

impl Redirect {
    /// Writes the value of `Location`: an absolute address, with the query of the request. `listener` is the port the
    /// request came in at, `matched` the length of the prefix by which the rule was found.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        request: Request<'_>,
        listener: u16,
        matched: usize,
    ) -> Result<(), NoHost> {
        let host = match &self.host {
            Some(host) => host.as_bytes(),
            None => request.host_without_port().ok_or(NoHost)?,
        };
        // Clients speak plain HTTP to every listener.
        let scheme = self.scheme.unwrap_or(RedirectScheme::Http);
        out.extend_from_slice(scheme.name());
        out.extend_from_slice(b"://");
        out.extend_from_slice(host);
        let port = self.port(listener);
        if port != scheme.port() {
            // Writing to a Vec cannot fail.
            let _ = write!(out, ":{port}");
        }
        self.write_path(out, request.path_and_query(), matched);
        Ok(())
    }

    /// As the Gateway API derives it: a scheme that is said brings its own.
    fn port(&self, listener: u16) -> u16 {
        let of_scheme = self.scheme.map(RedirectScheme::port);
        self.port.or(of_scheme).unwrap_or(listener)
    }

    fn write_path(&self, out: &mut Vec<u8>, path_and_query: &[u8], matched: usize) {
        match &self.path {
            // The server as a whole has no path.
            _ if path_and_query == b"*" => {}
            Some(path) => path.write(out, path_and_query, matched),
            None => {
                if !path_and_query.starts_with(b"/") {
                    out.push(b'/');
                }
                out.extend_from_slice(path_and_query);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::h1::{HeadLimits, RequestHead};

    const UNSAID: Redirect = Redirect {
        scheme: None,
        host: None,
        port: None,
        path: None,
        status: Status::FOUND,
    };

    fn location(redirect: &Redirect, text: &str, listener: u16) -> Result<String, NoHost> {
        let mut head = RequestHead::default();
        head.parse(text.as_bytes(), &HeadLimits::default())
            .expect("a valid head");
        let request = Request::new(&head, text.as_bytes());
        let mut out = Vec::new();
        redirect.write(&mut out, request, listener, "/shop".len())?;
        Ok(String::from_utf8(out).expect("text"))
    }

    #[test]
    fn the_port_is_derived_as_the_gateway_api_says() {
        use RedirectScheme::{Http, Https};
        for (scheme, port, listener, expected) in [
            (None, None, 80, "http://a/shop"),
            (None, None, 8080, "http://a:8080/shop"),
            (None, Some(80), 8080, "http://a/shop"),
            (None, Some(443), 80, "http://a:443/shop"),
            (Some(Http), None, 8080, "http://a/shop"),
            (Some(Http), Some(8080), 80, "http://a:8080/shop"),
            (Some(Https), None, 8080, "https://a/shop"),
            (Some(Https), Some(443), 80, "https://a/shop"),
            (Some(Https), Some(80), 80, "https://a:80/shop"),
        ] {
            let redirect = Redirect {
                scheme,
                port,
                ..UNSAID
            };
            let asked = "GET /shop HTTP/1.1\r\nHost: a:81\r\n\r\n";
            let found = location(&redirect, asked, listener);
            assert_eq!(found.as_deref(), Ok(expected), "{scheme:?} {port:?}");
        }
    }

    #[test]
    fn the_host_is_that_of_the_request_unless_the_rule_says_another() {
        let elsewhere = Redirect {
            host: Some("b".into()),
            ..UNSAID
        };
        for (target, host, expected) in [
            ("/x", "Shop.example.:80", "http://Shop.example./x"),
            ("/x", "[::1]:81", "http://[::1]/x"),
            ("/x", "[::1]", "http://[::1]/x"),
            ("http://c:81/x", "a", "http://c/x"),
        ] {
            let asked = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(location(&UNSAID, &asked, 80).as_deref(), Ok(expected));
            assert_eq!(
                location(&elsewhere, &asked, 80).as_deref(),
                Ok("http://b/x")
            );
        }
        let hostless = "GET /x HTTP/1.0\r\n\r\n";
        assert_eq!(location(&UNSAID, hostless, 80), Err(NoHost));
        assert_eq!(
            location(&elsewhere, hostless, 80).as_deref(),
            Ok("http://b/x")
        );
    }

    #[test]
    fn the_path_is_replaced_as_told_and_the_query_stays() {
        let (full, prefix) = (
            PathRewrite::Full("/new".into()),
            PathRewrite::prefix("/v2/"),
        );
        for (path, asked, expected) in [
            (None, "GET /shop/a?b=/c", "http://a/shop/a?b=/c"),
            (None, "GET //evil/?x", "http://a//evil/?x"),
            (None, "GET http://a?q", "http://a/?q"),
            (None, "OPTIONS *", "http://a"),
            (Some(&full), "GET /shop/a?b", "http://a/new?b"),
            (Some(&full), "OPTIONS *", "http://a"),
            (Some(&prefix), "GET /shop/a?b", "http://a/v2/a?b"),
            (Some(&prefix), "GET /shop", "http://a/v2"),
        ] {
            let redirect = Redirect {
                path: path.cloned(),
                ..UNSAID
            };
            let asked = format!("{asked} HTTP/1.1\r\nHost: a\r\n\r\n");
            let found = location(&redirect, &asked, 80);
            assert_eq!(found.as_deref(), Ok(expected), "{asked}");
        }
    }
}
