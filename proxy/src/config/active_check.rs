//! `activeCheck` of a WeirPolicy: how endpoints are asked whether they are well.

use super::health::read_duration;
use super::reader::{Cursor, Object};
use crate::check::{ActiveCheck, HttpQuestion, Question, StatusRange};

use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy)]
enum Kind {
    Http,
    Tcp,
}

/// What is wrong is reported, and then there is no check: half of one could take a whole pool out.
pub fn read(at: &Cursor<'_>) -> Option<ActiveCheck> {
    let mut object = at.object()?;
    let kind = object.required("type").and_then(|kind| {
        kind.supported_choice(&[("http", Kind::Http), ("tcp", Kind::Tcp)], &["grpc"])
    });
    let interval = length(&mut object, "interval", ActiveCheck::INTERVAL);
    let timeout = length(&mut object, "timeout", ActiveCheck::TIMEOUT);
    let healthy = threshold(
        &mut object,
        "healthyThreshold",
        ActiveCheck::HEALTHY_THRESHOLD,
    );
    let unhealthy = threshold(
        &mut object,
        "unhealthyThreshold",
        ActiveCheck::UNHEALTHY_THRESHOLD,
    );
    let question = match kind {
        Some(Kind::Http) => read_http(&mut object).map(Question::Http),
        Some(Kind::Tcp) => read_tcp(&mut object),
        None => {
            object.ignored(&HTTP_KEYS);
            None
        }
    };
    object.finish();
    Some(ActiveCheck {
        question: question?,
        interval: interval?,
        timeout: timeout?,
        healthy_threshold: healthy?,
        unhealthy_threshold: unhealthy?,
    })
}

const HTTP_KEYS: [&str; 3] = ["path", "host", "expectedStatus"];

fn read_http(object: &mut Object<'_>) -> Option<HttpQuestion> {
    let path = match object.optional("path") {
        Some(path) => read_path(&path),
        None => Some(HttpQuestion::PATH.into()),
    };
    let host = match object.optional("host") {
        Some(host) => read_host(&host).map(Some),
        None => Some(None),
    };
    let expected = match object.optional("expectedStatus") {
        Some(expected) => read_expected(&expected),
        None => Some([StatusRange::DEFAULT].into()),
    };
    Some(HttpQuestion {
        path: path?,
        host: host?,
        expected: expected?,
    })
}

fn read_tcp(object: &mut Object<'_>) -> Option<Question> {
    let mut is_fine = true;
    for key in HTTP_KEYS {
        if let Some(value) = object.optional(key) {
            value.error("means something only with `type: http`; leave it out");
            is_fine = false;
        }
    }
    is_fine.then_some(Question::Tcp)
}

fn read_path(at: &Cursor<'_>) -> Option<Arc<str>> {
    let text = at.text()?;
    let is_fine = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_fine || text.contains('#') {
        at.error(format!(
            "`{text}` is no path of a request; write one like /healthz"
        ));
        return None;
    }
    Some(text.into())
}

fn read_host(at: &Cursor<'_>) -> Option<Arc<str>> {
    let text = at.text()?;
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_fine) {
        at.error(format!(
            "`{text}` is no host; write one like shop.example or shop.example:8080"
        ));
        return None;
    }
    Some(text.into())
}

/// One status, a range, or a list of both.
fn read_expected(at: &Cursor<'_>) -> Option<Arc<[StatusRange]>> {
    if !at.is_list() {
        return Some([read_range(at)?].into());
    }
    let items = at.list();
    if items.is_empty() {
        at.error("is empty, so that no check could pass; write statuses such as 200 or 200-299");
        return None;
    }
    items.iter().map(read_range).collect()
}

fn read_range(at: &Cursor<'_>) -> Option<StatusRange> {
    if !at.is_text() {
        let status = at.whole(100..=599)?;
        return Some(StatusRange {
            first: status,
            last: status,
        });
    }
    let text = at.text()?;
    let range = parse_range(text);
    if range.is_none() {
        at.error(format!(
            "`{text}` is no range of statuses; write one like 200-299, from 100 to 599"
        ));
    }
    range
}

fn parse_range(text: &str) -> Option<StatusRange> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let status = |text: &str| {
        let status: u16 = text.trim().parse().ok()?;
        (100..=599).contains(&status).then_some(status)
    };
    let range = StatusRange {
        first: status(first)?,
        last: status(last)?,
    };
    (range.first <= range.last).then_some(range)
}

fn length(object: &mut Object<'_>, key: &'static str, default: Duration) -> Option<Duration> {
    const SHORTEST: Duration = Duration::from_millis(10);
    let Some(at) = object.optional(key) else {
        return Some(default);
    };
    let length = read_duration(&at)?;
    if length < SHORTEST {
        at.error("is too short; write at least 10ms");
        return None;
    }
    Some(length)
}

fn threshold(object: &mut Object<'_>, key: &'static str, default: u32) -> Option<u32> {
    match object.optional(key) {
        Some(at) => at.whole(1..=1000),
        None => Some(default),
    }
}
