//! How bodies are followed: what is passed on, where they end, what is refused.

use super::*;
use crate::http::{RequestFraming, ResponseFraming};

/// What came of a whole input.
#[derive(Debug, PartialEq, Eq)]
struct Followed {
    passed_on: Vec<u8>,
    payload: usize,
    consumed: usize,
    complete: bool,
}

/// Feeds `pieces` one after the other, as a connection would.
fn follow(decoder: &mut BodyDecoder, pieces: &[&[u8]]) -> Result<Followed, BodyError> {
    let mut followed = Followed {
        passed_on: Vec::new(),
        payload: 0,
        consumed: 0,
        complete: decoder.is_complete(),
    };
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() && !decoder.is_complete() {
            let step = decoder.next(rest)?;
            assert!(step.forward.end <= step.consumed && step.payload <= step.forward.len());
            assert!(step.consumed > 0, "no progress at {rest:?}");
            followed.passed_on.extend_from_slice(&rest[step.forward]);
            followed.payload += step.payload;
            followed.consumed += step.consumed;
            rest = &rest[step.consumed..];
        }
    }
    followed.complete = decoder.is_complete();
    Ok(followed)
}

fn chunked(form: BodyForm) -> BodyDecoder {
    BodyDecoder::of_request(RequestFraming::Chunked, form)
}

/// Follows a chunked body in one piece, then in all two-way splits and byte by byte: the one answer they all give.
fn follow_every_split(form: BodyForm, body: &[u8]) -> Result<Followed, BodyError> {
    let whole = follow(&mut chunked(form), &[body]);
    for cut in 0..=body.len() {
        let (first, second) = body.split_at(cut);
        let found = follow(&mut chunked(form), &[first, second]);
        assert_eq!(
            found,
            whole,
            "{:?} cut at {cut}",
            String::from_utf8_lossy(body)
        );
    }
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(follow(&mut chunked(form), &bytes), whole);
    whole
}

#[test]
fn a_plain_chunked_body_is_one_range() {
    let body = b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
    let step = chunked(BodyForm::Framed).next(body).unwrap();
    let expected = BodyStep {
        consumed: body.len(),
        forward: 0..body.len(),
        payload: 11,
    };
    assert_eq!(step, expected);
}

#[test]
fn chunked_bodies_pass_with_their_framing_or_without() {
    let rows: [(&str, &str, &str); 10] = [
        ("0\r\n\r\n", "0\r\n\r\n", ""),
        ("3\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "abc"),
        (
            "3\r\n\r\n0\r\n0\r\n\r\n",
            "3\r\n\r\n0\r\n0\r\n\r\n",
            "\r\n0",
        ),
        (
            "00a\r\n0123456789\r\n0\r\n\r\n",
            "00a\r\n0123456789\r\n0\r\n\r\n",
            "0123456789",
        ),
        (
            "A\r\n0123456789\r\n00\r\n\r\n",
            "A\r\n0123456789\r\n00\r\n\r\n",
            "0123456789",
        ),
        ("1;a\r\nx\r\n0;b=c\r\n\r\n", "1\r\nx\r\n0\r\n\r\n", "x"),
        (
            "1 ; a = \"b;\\\" \"\r\nx\r\n0\t;\r\n\r\n",
            "1\r\nx\r\n0\r\n\r\n",
            "x",
        ),
        (
            "1\r\nx\r\n0\r\nA: b\r\n\r\n",
            "1\r\nx\r\n0\r\nA: b\r\n\r\n",
            "x",
        ),
        (
            "0\r\nA:\r\ngrpc-status: 0\r\n\r\n",
            "0\r\nA:\r\ngrpc-status: 0\r\n\r\n",
            "",
        ),
        ("0;x\r\nA: b\r\n\r\n", "0\r\nA: b\r\n\r\n", ""),
    ];
    for (body, framed, payload) in rows {
        // What follows the body is the next message's.
        let input = format!("{body}GET / HTTP/1.1\r\n");
        for (form, passed_on) in [(BodyForm::Framed, framed), (BodyForm::PayloadOnly, payload)] {
            let expected = Followed {
                passed_on: passed_on.as_bytes().to_vec(),
                payload: payload.len(),
                consumed: body.len(),
                complete: true,
            };
            let found = follow_every_split(form, input.as_bytes());
            assert_eq!(found, Ok(expected), "{body:?} as {form:?}");
        }
    }
}

#[test]
fn chunk_lines_are_refused_rather_than_repaired() {
    use BodyError::{ExtensionInvalid, ExtensionTooLong, LineEnd, SizeInvalid};
    let long = format!("1;{}\r\n", "x".repeat(65_536));
    let longest = format!("1;{}\"\"\r\r", "x".repeat(1021));
    let too_long = format!("1;{}\r\n", "x".repeat(1024));
    let rows: [(&str, BodyError); 36] = [
        ("\r\n", SizeInvalid),
        ("x\r\n", SizeInvalid),
        (" 1\r\n", SizeInvalid),
        ("\t1\r\n", SizeInvalid),
        ("-1\r\n", SizeInvalid),
        ("+1\r\n", SizeInvalid),
        ("0x1\r\n", SizeInvalid),
        ("1_0\r\n", SizeInvalid),
        ("1.0\r\n", SizeInvalid),
        ("1,1\r\n", SizeInvalid),
        ("1\0\r\n", SizeInvalid),
        (";x\r\n", SizeInvalid),
        ("8000000000000000\r\n", SizeInvalid),
        ("ffffffffffffffff\r\n", SizeInvalid),
        ("10000000000000001\r\n", SizeInvalid),
        ("00000000000000001\r\n", SizeInvalid),
        ("1\n", LineEnd),
        ("1\rx", LineEnd),
        ("1\r\r\n", LineEnd),
        ("\n", SizeInvalid),
        ("1\r\nab", LineEnd),
        ("1\r\na\n", LineEnd),
        ("1\r\na\rb", LineEnd),
        ("1\r\na1\r\n", LineEnd),
        ("1 \r\n", ExtensionInvalid),
        ("1 x\r\n", ExtensionInvalid),
        ("1;x\n", LineEnd),
        ("1;\"\n\"\r\n", LineEnd),
        ("1;\"\r\n", ExtensionInvalid),
        ("1;\"\r\n\"\r\n", ExtensionInvalid),
        ("1;\"\\\r\n", ExtensionInvalid),
        ("1;x\0\r\n", ExtensionInvalid),
        ("1;x\rx", LineEnd),
        (&long, ExtensionTooLong),
        (&longest, LineEnd),
        (&too_long, ExtensionTooLong),
    ];
    for (body, error) in rows {
        for form in [BodyForm::Framed, BodyForm::PayloadOnly] {
            if body.len() > 5000 {
                assert_eq!(follow(&mut chunked(form), &[body.as_bytes()]), Err(error));
                continue;
            }
            let found = follow_every_split(form, body.as_bytes());
            assert_eq!(found, Err(error), "{body:?}");
        }
    }
}

#[test]
fn the_largest_chunk_size_is_accepted() {
    let mut decoder = chunked(BodyForm::Framed);
    let followed = follow(&mut decoder, &[b"7fffffffffffffff\r\nabc"]).unwrap();
    assert_eq!((followed.payload, followed.complete), (3, false));
}

#[test]
fn trailers_that_frame_or_route_are_refused() {
    for name in [
        "Content-Length",
        "Transfer-Encoding",
        "Host",
        "Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "Proxy-Connection",
        "Proxy-Authenticate",
        "Proxy-Authorization",
        "Proxy-Authentication-Info",
    ] {
        for spelled in [name.to_owned(), name.to_uppercase(), name.to_lowercase()] {
            let body = format!("0\r\nA: b\r\n{spelled}: x\r\n\r\n");
            let found = follow_every_split(BodyForm::Framed, body.as_bytes());
            assert_eq!(found, Err(BodyError::TrailerRefused), "{spelled}");
            for neighbour in [format!("{spelled}x"), format!("x{spelled}")] {
                let body = format!("0\r\nA: b\r\n{neighbour}: x\r\n\r\n");
                let found = follow_every_split(BodyForm::Framed, body.as_bytes());
                assert_eq!(
                    found.map(|followed| followed.complete),
                    Ok(true),
                    "{neighbour}"
                );
            }
        }
    }
}

#[test]
fn trailer_lines_are_as_strict_as_field_lines() {
    use BodyError::{LineEnd, TrailerInvalid, TrailersTooLarge};
    let sized = |length: usize| format!("0\r\nA: {}\r\n\r\n", "x".repeat(length));
    let rows: [(&str, BodyError); 12] = [
        ("0\r\n\n", TrailerInvalid),
        ("0\r\n\rx", LineEnd),
        ("0\r\n: b\r\n\r\n", TrailerInvalid),
        ("0\r\nA\r\n\r\n", TrailerInvalid),
        ("0\r\nA : b\r\n\r\n", TrailerInvalid),
        ("0\r\nA: b\r\n c\r\n\r\n", TrailerInvalid),
        ("0\r\nA: b\n\r\n", TrailerInvalid),
        ("0\r\nA: b\r\r\n", LineEnd),
        ("0\r\nA: \0\r\n\r\n", TrailerInvalid),
        ("0\r\nA: b\r\n\n", TrailerInvalid),
        ("0\r\nGET / HTTP/1.1\r\n\r\n", TrailerInvalid),
        (&sized(9000), TrailersTooLarge),
    ];
    for (body, error) in rows {
        for form in [BodyForm::Framed, BodyForm::PayloadOnly] {
            let found = if body.len() > 5000 {
                let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
                let trickled = follow(&mut chunked(form), &bytes);
                assert_eq!(trickled, follow(&mut chunked(form), &[body.as_bytes()]));
                trickled
            } else {
                follow_every_split(form, body.as_bytes())
            };
            assert_eq!(found, Err(error), "{body:?}");
        }
    }
    // The section with its last empty line may be 8 KiB.
    let found = follow(
        &mut chunked(BodyForm::Framed),
        &[sized(8192 - 7).as_bytes()],
    );
    assert_eq!(found.map(|followed| followed.complete), Ok(true));
    let found = follow(
        &mut chunked(BodyForm::Framed),
        &[sized(8192 - 6).as_bytes()],
    );
    assert_eq!(found, Err(TrailersTooLarge));
}

#[test]
fn counted_bodies_end_after_their_last_byte() {
    for cut in 0..=8 {
        let (first, second) = b"helloGET".split_at(cut);
        let mut decoder = BodyDecoder::of_request(RequestFraming::Length(5), BodyForm::Framed);
        let followed = follow(&mut decoder, &[first, second]).unwrap();
        assert_eq!(followed.passed_on, b"hello");
        assert_eq!(
            (followed.payload, followed.consumed, followed.complete),
            (5, 5, true)
        );
    }
}

#[test]
fn bodies_of_no_bytes_are_complete_at_once() {
    let form = BodyForm::Framed;
    for mut decoder in [
        BodyDecoder::of_request(RequestFraming::None, form),
        BodyDecoder::of_request(RequestFraming::Length(0), form),
        BodyDecoder::of_response(ResponseFraming::None, form),
        BodyDecoder::of_response(ResponseFraming::Length(0), form),
    ] {
        assert!(decoder.is_complete());
        assert_eq!(decoder.next(b"GET").map(|step| step.consumed), Ok(0));
        assert_eq!(decoder.on_end(), Ok(()));
    }
}

#[test]
fn only_a_body_without_stated_length_may_end_with_the_connection() {
    let form = BodyForm::Framed;
    let mut until_close = BodyDecoder::of_response(ResponseFraming::UntilClose, form);
    let followed = follow(&mut until_close, &[b"any", b"thing"]).unwrap();
    assert_eq!(
        (&followed.passed_on[..], followed.complete),
        (&b"anything"[..], false)
    );
    assert_eq!(until_close.on_end(), Ok(()));
    assert!(until_close.is_complete());

    let mut counted = BodyDecoder::of_response(ResponseFraming::Length(5), form);
    follow(&mut counted, &[b"hell"]).unwrap();
    assert_eq!(counted.on_end(), Err(BodyError::Truncated));

    let body = b"5\r\nhello\r\n0\r\nA: b\r\n\r\n";
    for end in 0..body.len() {
        let mut decoder = BodyDecoder::of_response(ResponseFraming::Chunked, form);
        follow(&mut decoder, &[&body[..end]]).unwrap();
        assert_eq!(decoder.on_end(), Err(BodyError::Truncated), "at {end}");
    }
}
