//! Where one response ends: all that load looks at of it.

/// How much of a response has come.
#[derive(Default)]
pub struct Progress {
    /// The head, while it is not complete in one read.
    head: Vec<u8>,
    /// The response whose body is coming, and how much of it is missing.
    body: Option<(Complete, usize)>,
}

/// A response that has come whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complete {
    pub status: u16,
    pub body: usize,
    pub close: bool,
}

/// Bytes that are no response with a known length.
#[derive(Debug, PartialEq, Eq)]
pub struct NotHttp;

impl Progress {
    /// Takes the next bytes of the one response that is outstanding.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Complete>, NotHttp> {
        if let Some((response, missing)) = &mut self.body {
            *missing = missing.checked_sub(bytes.len()).ok_or(NotHttp)?;
            let done = (*missing == 0).then_some(*response);
            if done.is_some() {
                self.body = None;
            }
            return Ok(done);
        }
        if !self.head.is_empty() {
            self.head.extend_from_slice(bytes);
            let whole = std::mem::take(&mut self.head);
            return self.take_head(&whole);
        }
        self.take_head(bytes)
    }

    fn take_head(&mut self, bytes: &[u8]) -> Result<Option<Complete>, NotHttp> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            self.head = bytes.to_vec();
            return Ok(None);
        };
        let response = Complete::parse(&bytes[..end + 2]).ok_or(NotHttp)?;
        let came = bytes.len() - end - 4;
        let missing = response.body.checked_sub(came).ok_or(NotHttp)?;
        if missing == 0 {
            return Ok(Some(response));
        }
        self.body = Some((response, missing));
        Ok(None)
    }
}

impl Complete {
    /// Reads a head whose every line has its line end.
    fn parse(head: &[u8]) -> Option<Self> {
        let status = std::str::from_utf8(head.get(9..12)?).ok()?.parse().ok()?;
        let mut body = None;
        let mut close = false;
        for line in head.split(|&byte| byte == b'\n').skip(1) {
            match line.first().map(u8::to_ascii_lowercase) {
                Some(b'c') if starts_with(line, b"content-length:") => {
                    let text = std::str::from_utf8(&line[15..]).ok()?;
                    body = Some(text.trim().parse().ok()?);
                }
                Some(b'c') if starts_with(line, b"connection: close") => close = true,
                _ => {}
            }
        }
        Some(Self {
            status,
            body: body?,
            close,
        })
    }
}

fn starts_with(line: &[u8], name: &[u8]) -> bool {
    line.get(..name.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &[u8] =
        b"HTTP/1.1 503 Nope\r\nDate: now\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

    #[test]
    fn a_response_is_complete_at_its_last_byte_however_it_is_split() {
        let whole = Complete {
            status: 503,
            body: 5,
            close: true,
        };
        for split in 1..RESPONSE.len() {
            let mut progress = Progress::default();
            let (first, second) = RESPONSE.split_at(split);
            assert_eq!(progress.take(first), Ok(None), "split at {split}");
            assert_eq!(progress.take(second), Ok(Some(whole)), "split at {split}");
        }
    }

    #[test]
    fn a_byte_too_many_or_no_length_is_not_a_response() {
        let mut progress = Progress::default();
        assert_eq!(progress.take(&[RESPONSE, b"!"].concat()), Err(NotHttp));
        let mut progress = Progress::default();
        assert_eq!(progress.take(b"HTTP/1.1 200 OK\r\n\r\n"), Err(NotHttp));
    }
}
