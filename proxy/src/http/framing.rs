//! Where a message ends (RFC 9112, section 6), more strictly than the RFC asks: any two statements about the length
//! are an error even if they agree, because the next hop may read them differently.

use super::grammar::{elements, is_name};
use super::{Method, Status, Version};

/// Lengths beyond this are refused: peers that count in signed integers would read them as something else.
const MAX_LENGTH: u64 = i64::MAX as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFraming {
    None,
    /// Bytes of body.
    Length(u64),
    Chunked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    None,
    /// Bytes of body.
    Length(u64),
    Chunked,
    UntilClose,
}

/// Why it cannot be said safely where a message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    #[error("Content-Length is not one number below 2^63")]
    LengthInvalid,
    #[error("more than one Content-Length")]
    LengthRepeated,
    #[error("both Content-Length and Transfer-Encoding")]
    LengthAndCoding,
    #[error("Transfer-Encoding does not end in chunked, once and without parameters")]
    CodingInvalid,
    #[error("Transfer-Encoding names a coding other than chunked")]
    CodingUnknown,
    #[error("Transfer-Encoding in an HTTP/1.0 message")]
    CodingInHttp10,
}

/// Collects what the fields of one head say about its body.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FramingFields {
    length: Option<u64>,
    has_coding: bool,
    ends_chunked: bool,
    has_unknown_coding: bool,
}

impl FramingFields {
    /// Takes in a `Content-Length`.
    pub fn on_length(&mut self, value: &[u8]) -> Result<(), FramingError> {
        let length = parse_length(value).ok_or(FramingError::LengthInvalid)?;
        match self.length.replace(length) {
            None => Ok(()),
            Some(_) => Err(FramingError::LengthRepeated),
        }
    }

    /// Takes in a `Transfer-Encoding`.
    pub fn on_coding(&mut self, value: &[u8]) -> Result<(), FramingError> {
        self.has_coding = true;
        for coding in elements(value) {
            // Nothing may follow chunked, not even chunked.
            if self.ends_chunked || !is_name(coding) {
                return Err(FramingError::CodingInvalid);
            }
            if coding.eq_ignore_ascii_case(b"chunked") {
                self.ends_chunked = true;
            } else {
                self.has_unknown_coding = true;
            }
        }
        Ok(())
    }

    pub fn of_request(self, version: Version) -> Result<RequestFraming, FramingError> {
        Ok(match self.checked(version)? {
            Stated::Nothing => RequestFraming::None,
            Stated::Length(length) => RequestFraming::Length(length),
            Stated::Chunked => RequestFraming::Chunked,
        })
    }

    /// `method` is that of the request answered.
    pub fn of_response(
        self,
        version: Version,
        status: Status,
        method: Method,
    ) -> Result<ResponseFraming, FramingError> {
        let stated = self.checked(version)?;
        if method == Method::Head || status.is_bodiless() {
            return Ok(ResponseFraming::None);
        }
        Ok(match stated {
            Stated::Nothing => ResponseFraming::UntilClose,
            Stated::Length(length) => ResponseFraming::Length(length),
            Stated::Chunked => ResponseFraming::Chunked,
        })
    }

    fn checked(self, version: Version) -> Result<Stated, FramingError> {
        if !self.has_coding {
            return Ok(self.length.map_or(Stated::Nothing, Stated::Length));
        }
        if self.length.is_some() {
            return Err(FramingError::LengthAndCoding);
        }
        if version == Version::Http10 {
            return Err(FramingError::CodingInHttp10);
        }
        if !self.ends_chunked {
            return Err(FramingError::CodingInvalid);
        }
        if self.has_unknown_coding {
            return Err(FramingError::CodingUnknown);
        }
        Ok(Stated::Chunked)
    }
}

enum Stated {
    Nothing,
    Length(u64),
    Chunked,
}

/// Digits only: no sign, no whitespace inside, no list.
fn parse_length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut length = 0u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        length = length
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    (length <= MAX_LENGTH).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = Result<RequestFraming, FramingError>;

    fn lengths(values: &[&[u8]]) -> Answer {
        let mut fields = FramingFields::default();
        for value in values {
            fields.on_length(value)?;
        }
        fields.of_request(Version::Http11)
    }

    fn codings(values: &[&[u8]]) -> Answer {
        let mut fields = FramingFields::default();
        for value in values {
            fields.on_coding(value)?;
        }
        fields.of_request(Version::Http11)
    }

    #[test]
    fn a_length_is_plain_digits_once() {
        use FramingError::{LengthInvalid, LengthRepeated};
        use RequestFraming::{Length, None};
        let rows: [(&[&[u8]], Answer); 21] = [
            (&[], Ok(None)),
            (&[b"0"], Ok(Length(0))),
            (&[b"42"], Ok(Length(42))),
            (&[b"007"], Ok(Length(7))),
            (
                &[b"9223372036854775807"],
                Ok(Length(9_223_372_036_854_775_807)),
            ),
            (&[b"9223372036854775808"], Err(LengthInvalid)),
            (&[b"18446744073709551616"], Err(LengthInvalid)),
            (&[b"99999999999999999999999999"], Err(LengthInvalid)),
            (&[b""], Err(LengthInvalid)),
            (&[b"+1"], Err(LengthInvalid)),
            (&[b"-1"], Err(LengthInvalid)),
            (&[b"-0"], Err(LengthInvalid)),
            (&[b"1 0"], Err(LengthInvalid)),
            (&[b"1_0"], Err(LengthInvalid)),
            (&[b"0x10"], Err(LengthInvalid)),
            (&[b"1.0"], Err(LengthInvalid)),
            (&[b"1e3"], Err(LengthInvalid)),
            (&[b"5, 5"], Err(LengthInvalid)),
            (&[b"5,6"], Err(LengthInvalid)),
            (&[b"5", b"5"], Err(LengthRepeated)),
            (&[b"5", b"6"], Err(LengthRepeated)),
        ];
        for (values, expected) in rows {
            assert_eq!(lengths(values), expected, "{values:?}");
        }
    }

    #[test]
    fn a_coding_is_chunked_alone() {
        use FramingError::{CodingInvalid, CodingUnknown};
        use RequestFraming::Chunked;
        let rows: [(&[&[u8]], Answer); 21] = [
            (&[b"chunked"], Ok(Chunked)),
            (&[b"Chunked"], Ok(Chunked)),
            (&[b""], Err(CodingInvalid)),
            (&[b"identity"], Err(CodingInvalid)),
            (&[b"gzip"], Err(CodingInvalid)),
            (&[b"chunked, gzip"], Err(CodingInvalid)),
            (&[b"chunked, chunked"], Err(CodingInvalid)),
            (&[b"chunked", b"chunked"], Err(CodingInvalid)),
            (&[b"chunked", b"identity"], Err(CodingInvalid)),
            (&[b"chunked,"], Err(CodingInvalid)),
            (&[b", chunked"], Err(CodingInvalid)),
            (&[b"xchunked"], Err(CodingInvalid)),
            (&[b"chunkedx"], Err(CodingInvalid)),
            (&[b"chunked;q=1"], Err(CodingInvalid)),
            (&[b"\"chunked\""], Err(CodingInvalid)),
            (&[b"'chunked'"], Err(CodingInvalid)),
            (&[b"\x0bchunked"], Err(CodingInvalid)),
            (&[b"chunk ed"], Err(CodingInvalid)),
            (&[b"gzip, chunked"], Err(CodingUnknown)),
            (&[b"gzip", b"chunked"], Err(CodingUnknown)),
            (&[b"identity, chunked"], Err(CodingUnknown)),
        ];
        for (values, expected) in rows {
            assert_eq!(codings(values), expected, "{values:?}");
        }
    }

    #[test]
    fn length_beside_coding_is_refused_in_either_order() {
        let mut fields = FramingFields::default();
        fields.on_length(b"5").unwrap();
        fields.on_coding(b"chunked").unwrap();
        assert_eq!(
            fields.of_request(Version::Http11),
            Err(FramingError::LengthAndCoding)
        );
        let status = Status::OK;
        assert_eq!(
            fields.of_response(Version::Http11, status, Method::Get),
            Err(FramingError::LengthAndCoding)
        );
    }

    #[test]
    fn http_1_0_knows_no_codings() {
        let mut fields = FramingFields::default();
        fields.on_coding(b"chunked").unwrap();
        assert_eq!(
            fields.of_request(Version::Http10),
            Err(FramingError::CodingInHttp10)
        );
    }

    #[test]
    fn some_responses_have_no_body_whatever_they_say() {
        use ResponseFraming::{Chunked, Length, None, UntilClose};
        let with_length = |fields: &mut FramingFields| fields.on_length(b"5").unwrap();
        let with_coding = |fields: &mut FramingFields| fields.on_coding(b"chunked").unwrap();
        let rows = [
            (200, Method::Get, [UntilClose, Length(5), Chunked]),
            (200, Method::Head, [None, None, None]),
            (404, Method::Head, [None, None, None]),
            (100, Method::Post, [None, None, None]),
            (103, Method::Get, [None, None, None]),
            (204, Method::Delete, [None, None, None]),
            (205, Method::Post, [UntilClose, Length(5), Chunked]),
            (304, Method::Get, [None, None, None]),
            (500, Method::Extension, [UntilClose, Length(5), Chunked]),
        ];
        for (code, method, expected) in rows {
            let status = Status::try_from(code).unwrap();
            let says: [&dyn Fn(&mut FramingFields); 3] = [&|_| (), &with_length, &with_coding];
            for (say, expected) in says.iter().zip(expected) {
                let mut fields = FramingFields::default();
                say(&mut fields);
                let framing = fields.of_response(Version::Http11, status, method);
                assert_eq!(framing, Ok(expected), "{code} to {method:?}");
            }
        }
    }
}
