//! How long a rate-limited client should stay away, by the fields servers say it with. What cannot be read, is negative
//! or lies in the past is passed over for the next.

use std::time::{Duration, UNIX_EPOCH};

use super::Fields;

/// A smaller `x-ratelimit-reset` counts seconds from now, a larger one those since 1970.
const EPOCH_FROM: f64 = 2_592_000.0;

/// The fields of which the first that can be used counts.
const FIRST: [&[u8]; 3] = [b"retry-after", b"retry-after-ms", b"x-ratelimit-reset"];

/// The fields whose shortest wait counts, of those that are there.
const RESETS: [&[u8]; 4] = [
    b"x-ratelimit-reset-requests",
    b"x-ratelimit-reset-tokens",
    b"x-ratelimit-reset-requests-day",
    b"x-ratelimit-reset-tokens-minute",
];

/// Why a response does not say how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWait {
    /// None of the fields can be used.
    Unusable,
    /// It has none of them.
    Missing,
}

/// The wait that the fields of a response ask for, the first of `retry-after`, `retry-after-ms`, `x-ratelimit-reset`, and
/// the shortest of the resets. `unix_now` is the time since 1970.
pub fn rate_limit(fields: &Fields, bytes: &[u8], unix_now: Duration) -> Result<Duration, NoWait> {
    let names = FIRST.iter().chain(&RESETS);
    let has_any = || {
        names
            .copied()
            .any(|name| fields.values(bytes, name).next().is_some())
    };
    wait_asked_for(fields, bytes, unix_now).ok_or_else(|| match has_any() {
        true => NoWait::Unusable,
        false => NoWait::Missing,
    })
}

fn wait_asked_for(fields: &Fields, bytes: &[u8], unix_now: Duration) -> Option<Duration> {
    let first = |name: &'static [u8], read: &dyn Fn(&str) -> Option<Duration>| {
        let mut values = fields.values(bytes, name);
        let value = std::str::from_utf8(values.next()?).ok()?;
        read(value)
    };
    let resets = || RESETS.iter().filter_map(|name| first(name, &wait)).min();
    let [after, after_ms, reset_at] = FIRST;
    first(after, &|text| retry_after(text, unix_now))
        .or_else(|| first(after_ms, &|text| seconds(number(text)? / 1e3)))
        .or_else(|| first(reset_at, &|text| reset(text, unix_now)))
        .or_else(resets)
}

/// Seconds, or a date in the future (RFC 9110, section 10.2.3).
fn retry_after(text: &str, unix_now: Duration) -> Option<Duration> {
    if let Some(number) = number(text) {
        return seconds(number);
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let since_1970 = date.duration_since(UNIX_EPOCH).ok()?;
    since_1970
        .checked_sub(unix_now)
        .filter(|wait| !wait.is_zero())
}

fn reset(text: &str, unix_now: Duration) -> Option<Duration> {
    let number = number(text)?;
    if number < EPOCH_FROM {
        return seconds(number);
    }
    seconds(number)?
        .checked_sub(unix_now)
        .filter(|wait| !wait.is_zero())
}

/// A duration as Go writes it, such as `1m30.5s`, or a number of seconds.
fn wait(text: &str) -> Option<Duration> {
    number(text).map_or_else(|| go_duration(text), seconds)
}

fn go_duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("μs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let digits = rest.find(|c| !is_digit(c))?;
        let count = number(&rest[..digits])?;
        rest = &rest[digits..];
        let (unit, length) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        total += count * length;
    }
    (!text.is_empty()).then_some(total).and_then(seconds)
}

/// A decimal number without sign or exponent.
fn number(text: &str) -> Option<f64> {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_plain)
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Method;
    use crate::http::h1::{HeadLimits, ResponseHead};

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW: u64 = 784_111_777;

    fn asked(fields: &str) -> Result<Duration, NoWait> {
        let bytes = format!("HTTP/1.1 429 Slow Down\r\n{fields}\r\n");
        let mut head = ResponseHead::default();
        head.parse(bytes.as_bytes(), Method::Get, &HeadLimits::default())
            .expect("a valid head");
        rate_limit(head.fields(), bytes.as_bytes(), Duration::from_secs(NOW))
    }

    fn millis(length: u64) -> Result<Duration, NoWait> {
        Ok(Duration::from_millis(length))
    }

    #[test]
    fn each_field_is_read_in_its_own_spelling() {
        for (field, expected) in [
            ("Retry-After: 120", millis(120_000)),
            ("Retry-After: Sun, 06 Nov 1994 08:50:07 GMT", millis(30_000)),
            (
                "Retry-After: Sunday, 06-Nov-94 08:50:07 GMT",
                millis(30_000),
            ),
            ("retry-after-ms: 1500", millis(1500)),
            ("X-RateLimit-Reset: 2591999", millis(2_591_999_000)),
            ("X-RateLimit-Reset: 784111787", millis(10_000)),
            ("x-ratelimit-reset-requests: 2m30s", millis(150_000)),
            ("x-ratelimit-reset-tokens: 1.5s", millis(1500)),
            ("x-ratelimit-reset-tokens: 250ms", millis(250)),
            (
                "x-ratelimit-reset-requests-day: 1h0m0.5s",
                millis(3_600_500),
            ),
            ("x-ratelimit-reset-tokens-minute: 7.66", millis(7660)),
        ] {
            assert_eq!(asked(&format!("{field}\r\n")), expected, "{field}");
        }
    }

    #[test]
    fn what_cannot_be_read_or_has_passed_is_ignored() {
        for field in [
            "Retry-After: soon",
            "Retry-After: -1",
            "Retry-After: 1e3",
            "Retry-After: ",
            "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT",
            "Retry-After: Sun, 06 Nov 1994 08:49:07 GMT",
            "Retry-After: 99999999999999999999999",
            "retry-after-ms: -5",
            "x-ratelimit-reset: 2592000",
            "x-ratelimit-reset: 784111777",
            "x-ratelimit-reset: 784111700",
            "x-ratelimit-reset-tokens: 5 m",
            "x-ratelimit-reset-tokens: -5s",
            "x-ratelimit-reset-tokens: 1m30",
            "x-ratelimit-reset-tokens: s",
            "x-ratelimit-reset-tokens: 1.2.3s",
        ] {
            let wait = asked(&format!("{field}\r\n"));
            assert_eq!(wait, Err(NoWait::Unusable), "{field}");
        }
        assert_eq!(asked("x-other: 5\r\n"), Err(NoWait::Missing));
    }

    #[test]
    fn the_first_that_can_be_read_counts_and_of_the_resets_the_shortest() {
        let all = "x-ratelimit-reset-tokens: 6s\r\nx-ratelimit-reset-requests: 5s\r\n\
                   x-ratelimit-reset: 4\r\nretry-after-ms: 3000\r\nretry-after: 2\r\n";
        assert_eq!(asked(all), millis(2000));
        assert_eq!(
            asked(&all.replace("retry-after: 2", "retry-after: x")),
            millis(3000)
        );
        let without = all.replace("retry-after", "unknown");
        assert_eq!(asked(&without), millis(4000));
        assert_eq!(
            asked(&without.replace("reset: 4", "reset: -")),
            millis(5000)
        );
    }
}
