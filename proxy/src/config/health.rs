//! `health` of a policy: when an endpoint leaves the pool.

use std::time::Duration;

use super::reader::{Cursor, Object};
use crate::balance::{Eviction, HealthPolicy, Percent};
use crate::condition::Condition;

/// When an endpoint is unhealthy, and what becomes of it then.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// `None`: the status tells.
    pub condition: Option<Condition>,
    pub policy: HealthPolicy,
}

pub fn read(at: &Cursor<'_>) -> Option<Health> {
    let mut object = at.object()?;
    let condition = object.optional("unhealthyCondition");
    let eviction = object.optional("eviction");
    object.finish();
    let condition = condition.map(|condition| read_condition(&condition));
    let eviction = eviction.map(|eviction| read_eviction(&eviction));
    Some(Health {
        condition: all_or_nothing(condition)?,
        policy: HealthPolicy {
            eviction: all_or_nothing(eviction)?,
        },
    })
}

fn read_condition(at: &Cursor<'_>) -> Option<Condition> {
    match Condition::compile(at.text()?) {
        Ok(condition) => Some(condition),
        Err(error) => {
            at.error(error.to_string());
            None
        }
    }
}

fn read_eviction(at: &Cursor<'_>) -> Option<Eviction> {
    let mut object = at.object()?;
    let duration = object.optional("duration");
    let failures = object.optional("consecutiveFailures");
    let restore = percent(&mut object, "restoreHealth");
    let threshold = percent(&mut object, "healthThreshold");
    let prefers_rate_limit = object.optional("preferRetryAfter");
    object.finish();
    let duration = duration.map(|duration| read_duration(&duration));
    let prefers_rate_limit = prefers_rate_limit.map(|prefers| prefers.boolean());
    let failures = failures.map(|failures| failures.whole(0..=i128::from(i32::MAX)));
    Some(Eviction {
        duration: all_or_nothing(duration)?,
        restore_health: all_or_nothing(restore)?,
        consecutive_failures: all_or_nothing(failures)?,
        health_threshold: all_or_nothing(threshold)?,
        prefers_rate_limit: all_or_nothing(prefers_rate_limit)?.unwrap_or(false),
    })
}

/// Not there is fine, there and wrong is not.
fn all_or_nothing<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        Some(None) => None,
        Some(value) => Some(value),
        None => Some(None),
    }
}

fn percent(object: &mut Object<'_>, key: &'static str) -> Option<Option<Percent>> {
    let value = object.optional(key)?;
    Some(value.whole(0..=100).and_then(Percent::new))
}

/// A duration of the Gateway API (GEP-2257): up to four pairs of at most five digits and a unit, such as `1h30m` or
/// `500ms`.
pub fn read_duration(at: &Cursor<'_>) -> Option<Duration> {
    let wanted = "a duration such as 500ms, 3s, 2m or 1h30m";
    if let Some(number) = at.whole_number() {
        let example = if number > 0 { number } else { 10 };
        at.error(format!(
            "is the number {number}; write a duration such as {example}s"
        ));
        return None;
    }
    let text = at.text_for(wanted)?;
    let duration = parse_duration(text);
    if duration.is_none() {
        let is_bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        at.error(match is_bare {
            true => format!("`{text}` is a duration without its unit; write one such as {text}s"),
            false => {
                format!("`{text}` is not a duration; write one such as 500ms, 3s, 2m or 1h30m")
            }
        });
    }
    duration
}

fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    for _ in 0..4 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=5).contains(&digits) {
            return None;
        }
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let units = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
        let (unit, millis) = units.iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        total += Duration::from_millis(number * millis);
        if rest.is_empty() {
            return Some(total);
        }
    }
    None
}
