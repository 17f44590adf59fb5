//! `requestRedirect` of a rule: where its clients are sent.

use super::filters::{read_hostname, read_path};
use super::reader::Cursor;
use crate::http::Status;
use crate::route::{Redirect, RedirectScheme};

/// As the Gateway API limits them.
const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

pub fn read_redirect(at: &Cursor<'_>, is_by_prefix: bool) -> Option<Redirect> {
    let mut object = at.object()?;
    let scheme = object.optional("scheme");
    let host = object.optional("hostname");
    let port = object.optional("port");
    let path = object.optional("path");
    let status = object.optional("statusCode");
    object.finish();
    let scheme = said(scheme, |at| {
        at.choice(&[
            ("http", RedirectScheme::Http),
            ("https", RedirectScheme::Https),
        ])
    });
    let host = said(host, read_bare_hostname);
    let port = said(port, Cursor::port);
    let path = said(path, |at| read_path(at, is_by_prefix));
    let status = said(status, read_status);
    Some(Redirect {
        scheme: scheme?,
        host: host?,
        port: port?,
        path: path?,
        status: status?.unwrap_or(Status::FOUND),
    })
}

/// What may be left out. `None` if it is there and wrong, which was reported.
fn said<'a, T>(
    at: Option<Cursor<'a>>,
    read: impl FnOnce(&Cursor<'a>) -> Option<T>,
) -> Option<Option<T>> {
    match at {
        Some(at) => read(&at).map(Some),
        None => Some(None),
    }
}

fn read_bare_hostname(at: &Cursor<'_>) -> Option<Box<str>> {
    let host = read_hostname(at)?;
    if host.contains(':') {
        at.error(format!(
            "`{host}` is more than a host name; say the port as `port`"
        ));
        return None;
    }
    Some(host)
}

fn read_status(at: &Cursor<'_>) -> Option<Status> {
    let code: u16 = at.whole(300..=399)?;
    if !STATUSES.contains(&code) {
        at.error(format!(
            "{code} does not redirect; write 301, 302, 303, 307 or 308"
        ));
        return None;
    }
    Status::try_from(code).ok()
}
