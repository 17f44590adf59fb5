//! Lengths of time as people write them: a whole number and a unit.

use std::time::Duration;

/// Why a text is no length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LengthError {
    #[error("not a length of time; write one like 500ms, 5s, 2m or 1h")]
    Unreadable,
    #[error("the unit is missing; write it like 500ms, 5s, 2m or 1h")]
    UnitMissing,
    #[error("must be longer than nothing; write one like 500ms, 5s, 2m or 1h")]
    NotPositive,
    #[error("longer than a day")]
    TooLong,
}

const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

pub fn parse(text: &str) -> Result<Duration, LengthError> {
    if text
        .strip_prefix('-')
        .is_some_and(|rest| parse(rest).is_ok())
    {
        return Err(LengthError::NotPositive);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(LengthError::Unreadable);
    }
    let number: u64 = number.parse().map_err(|_| LengthError::TooLong)?;
    let length = match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.saturating_mul(60)),
        "h" => Duration::from_secs(number.saturating_mul(60 * 60)),
        "" => return Err(LengthError::UnitMissing),
        _ => return Err(LengthError::Unreadable),
    };
    if length.is_zero() {
        return Err(LengthError::NotPositive);
    }
    if length > LONGEST {
        return Err(LengthError::TooLong);
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_a_number_and_a_unit() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("24h"), Ok(Duration::from_secs(86400)));
    }

    #[test]
    fn what_is_no_sensible_length_is_refused() {
        for (text, error) in [
            ("5", LengthError::UnitMissing),
            ("", LengthError::Unreadable),
            ("s", LengthError::Unreadable),
            ("-5s", LengthError::NotPositive),
            ("-s", LengthError::Unreadable),
            ("--5s", LengthError::Unreadable),
            ("1.5s", LengthError::Unreadable),
            ("5 s", LengthError::Unreadable),
            ("5 years", LengthError::Unreadable),
            ("0ms", LengthError::NotPositive),
            ("25h", LengthError::TooLong),
            ("18446744073709551615h", LengthError::TooLong),
            ("99999999999999999999s", LengthError::TooLong),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }
}
