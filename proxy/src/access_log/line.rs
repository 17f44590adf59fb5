//! Records as lines of JSON. What is not known is left out.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Serialize;

use super::{Record, Text};
use crate::moment::Moment;

/// Which moment it was at which time of day.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    pub moment: Moment,
    /// Since 1970, in UTC.
    pub since_epoch: Duration,
}

impl WallClock {
    fn at(self, moment: Moment) -> Duration {
        let later = moment.since(self.moment);
        let earlier = self.moment.since(moment);
        (self.since_epoch + later).saturating_sub(earlier)
    }
}

/// Keys in the order of the line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    time: String,
    client: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    method: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    bytes_in: u64,
    bytes_out: u64,
    duration_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    connect_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_ms: Option<f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    backend: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<SocketAddr>,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_id: Cow<'a, str>,
    /// Whether any text of the line is cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

/// Appends a record and a line end.
pub fn write_line(out: &mut Vec<u8>, record: &Record, clock: WallClock) {
    fn is_cut<const N: usize>(text: &Text<N>) -> bool {
        text.is_cut()
    }
    let line = Line {
        time: utc(clock.at(record.begun)),
        client: record.client,
        protocol: record.protocol,
        method: record.method.to_text(),
        host: record.host.to_text(),
        path: record.path.to_text(),
        status: record.status,
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
        duration_ms: millis(record.ended.since(record.begun)),
        connect_ms: record.connect.map(millis),
        first_byte_ms: record.first_byte.map(millis),
        backend: record.backend.to_text(),
        endpoint: record.endpoint,
        attempts: record.attempts,
        error: record.error,
        request_id: record.request_id.to_text(),
        cut: is_cut(&record.method)
            || is_cut(&record.host)
            || is_cut(&record.path)
            || is_cut(&record.backend)
            || is_cut(&record.request_id),
    };
    serde_json::to_writer(&mut *out, &line)
        .expect("a vector takes all bytes, and all keys are texts");
    out.push(b'\n');
}

/// Whole microseconds are enough.
fn millis(length: Duration) -> f64 {
    length.as_micros() as f64 / 1e3
}

/// RFC 3339, to the millisecond.
fn utc(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let [hour, minute, second] = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
    let millis = since_epoch.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of a day counted from 1970. Years begin in March here, so that the leap day is the last; eras are
/// the 400 years after which the calendar repeats.
fn date(day: u64) -> (u64, u64, u64) {
    const DAYS_OF_ERA: u64 = 146_097;
    // From the first of March of the year 0 to 1970.
    let day = day + 719_468;
    let (era, day) = (day / DAYS_OF_ERA, day % DAYS_OF_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (year, month + 3),
        _ => (year + 1, month - 9),
    };
    (era * 400 + year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> WallClock {
        WallClock {
            moment: Moment::from_nanos(5_000_000_000),
            since_epoch: Duration::from_millis(1_709_210_096_007),
        }
    }

    fn line(record: &Record) -> String {
        let mut out = Vec::new();
        write_line(&mut out, record, clock());
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn days_have_the_dates_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_210_096, "2024-02-29T12:34:56.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(utc(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn a_line_has_what_is_known_in_a_fixed_order() {
        let begun = Moment::from_nanos(4_000_000_000);
        let mut record = Record::new([10, 0, 0, 9].into(), begun);
        record.method.set(b"GET");
        record.host.set(b"shop.example");
        record.path.set(b"/cart");
        record.backend.set(b"default/shop");
        record.endpoint = Some(([10, 0, 0, 1], 8080).into());
        record.ended = begun + Duration::from_micros(5312);
        record.first_byte = Some(Duration::from_nanos(5_100_999));
        record.status = Some(200);
        (record.bytes_in, record.bytes_out, record.attempts) = (71, 340, 1);
        assert_eq!(
            line(&record),
            "{\"time\":\"2024-02-29T12:34:55.007Z\",\"client\":\"10.0.0.9\",\"method\":\"GET\",\
             \"host\":\"shop.example\",\"path\":\"/cart\",\"status\":200,\"bytesIn\":71,\"bytesOut\":340,\
             \"durationMs\":5.312,\"firstByteMs\":5.1,\"backend\":\"default/shop\",\
             \"endpoint\":\"10.0.0.1:8080\",\"attempts\":1}\n"
        );
    }

    #[test]
    fn whatever_a_client_sends_stays_one_line_of_json() {
        let mut record = Record::new([10, 0, 0, 9].into(), Moment::from_nanos(0));
        record.path.set(b"/\"\\\x00\n\x7f\xff\xe2\x82");
        record.host.set(&[b'a'; 100]);
        record.error = Some("bad-request");
        let line = line(&record);
        assert_eq!(line.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(value["path"], "/\"\\\u{0}\n\u{7f}\u{fffd}\u{fffd}");
        assert_eq!(value["host"].as_str().map(str::len), Some(64));
        assert_eq!(value["cut"], true);
        assert_eq!(value["error"], "bad-request");
        assert!(value.get("status").is_none() && value.get("endpoint").is_none());
    }
}
