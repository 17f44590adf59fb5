//! Good and bad headers, each read at every split.

use super::*;

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn addresses(source: &str, destination: &str) -> Option<Addresses> {
    let address = |text: &str| text.parse().expect("a literal address");
    Some(Addresses {
        source: address(source),
        destination: address(destination),
    })
}

/// A header of version 2.
fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
    [V2, &[command, family], &length, rest].concat()
}

fn good() -> Vec<(Vec<u8>, Option<Addresses>)> {
    let v4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 4, 1, 0xbb];
    let four = addresses("192.0.2.1:56324", "198.51.100.1:443");
    let mut v6 = vec![0; 36];
    (v6[15], v6[31], v6[33], v6[35]) = (1, 2, 3, 4);
    vec![
        (
            b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n".to_vec(),
            four,
        ),
        (
            b"PROXY TCP6 2001:db8::1 ::1 0 65535\r\n".to_vec(),
            addresses("[2001:db8::1]:0", "[::1]:65535"),
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        (b"PROXY UNKNOWN ffff::1 anything 1 2\r\n".to_vec(), None),
        (v2(0x21, 0x11, &v4), four),
        // With something more to say: a checksum, a name.
        (
            v2(0x21, 0x11, &[&v4[..], &[3, 0, 4, 1, 2, 3, 4]].concat()),
            four,
        ),
        (v2(0x21, 0x21, &v6), addresses("[::1]:3", "[::2]:4")),
        (v2(0x20, 0x00, &[]), None),
        (v2(0x20, 0x11, &v4), None),
        (v2(0x21, 0x00, &[9; 20]), None),
        (v2(0x21, 0x31, &[0; 216]), None),
    ]
}

#[test]
fn a_good_header_is_read_and_what_follows_is_left_alone() {
    for (header, addresses) in good() {
        let length = header.len();
        let expected = Ok(Some(Header { length, addresses }));
        let text = header.escape_ascii().to_string();
        assert_eq!(read(&header), expected, "{text}");
        let followed = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(read(&followed), expected, "{text}");
    }
}

#[test]
fn until_a_header_is_whole_more_is_needed() {
    for (header, _) in good() {
        for end in 0..header.len() {
            let text = header[..end].escape_ascii().to_string();
            assert_eq!(read(&header[..end]), Ok(None), "{text}");
        }
    }
}

#[test]
fn what_is_no_header_is_an_error_and_stays_one_whatever_follows() {
    let v4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 4, 1, 0xbb];
    let malformed = HeaderError::Malformed;
    let long = [b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 200]].concat();
    let cases: Vec<(Vec<u8>, HeaderError)> = vec![
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), HeaderError::Missing),
        (
            b"PROXYTCP4 1.1.1.1 2.2.2.2 1 2\r\n".to_vec(),
            HeaderError::Missing,
        ),
        (b"PUT / HTTP/1.1\r\n".to_vec(), HeaderError::Missing),
        (b"\r\nGET /".to_vec(), HeaderError::Missing),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n".to_vec(), malformed),
        (b"PROXY TCP4  1.1.1.1 2.2.2.2 1 2\r\n".to_vec(), malformed),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2 \r\n".to_vec(), malformed),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n".to_vec(), malformed),
        (
            b"PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n".to_vec(),
            malformed,
        ),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 01 2\r\n".to_vec(), malformed),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 +1 2\r\n".to_vec(), malformed),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1 \r\n".to_vec(), malformed),
        (b"PROXY TCP4 01.1.1.1 2.2.2.2 1 2\r\n".to_vec(), malformed),
        (b"PROXY TCP4 ::1 ::2 1 2\r\n".to_vec(), malformed),
        (b"PROXY TCP6 1.1.1.1 2.2.2.2 1 2\r\n".to_vec(), malformed),
        (b"PROXY tcp4 1.1.1.1 2.2.2.2 1 2\r\n".to_vec(), malformed),
        (b"PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n".to_vec(), malformed),
        (b"PROXY \r\n".to_vec(), malformed),
        (b"PROXY TCP4 \xff 2.2.2.2 1 2\r\n".to_vec(), malformed),
        (long, HeaderError::TooLong { most: 107 }),
        (v2(0x11, 0x11, &v4), malformed),
        (v2(0x22, 0x11, &v4), malformed),
        (v2(0x21, 0x12, &v4), malformed),
        (v2(0x21, 0x41, &v4), malformed),
        (v2(0x21, 0x11, &v4[..11]), malformed),
        (v2(0x21, 0x21, &v4), malformed),
        (
            v2(0x21, 0x11, &[0; 5000]),
            HeaderError::TooLong { most: 4096 },
        ),
    ];
    for (bytes, error) in cases {
        let text = bytes.escape_ascii().to_string();
        assert_eq!(read(&bytes), Err(error), "{text}");
        let first = (0..bytes.len()).find(|end| read(&bytes[..*end]).is_err());
        for end in first.unwrap_or(bytes.len())..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "{end} of {text}");
        }
    }
}

#[test]
fn what_is_written_reads_back() {
    for version in [Version::V1, Version::V2] {
        for (source, destination) in [
            ("192.0.2.1:1024", "198.51.100.1:443"),
            ("[2001:db8::1]:1024", "[2001:db8::2]:65535"),
        ] {
            let told = addresses(source, destination);
            let mut bytes = b"before".to_vec();
            write(&mut bytes, version, told.expect("addresses"));
            let header = read(&bytes[6..]).expect("good").expect("whole");
            assert_eq!(
                header,
                Header {
                    length: bytes.len() - 6,
                    addresses: told
                }
            );
        }
    }
}

#[test]
fn addresses_of_two_families_are_told_as_one() {
    let told = addresses("192.0.2.1:1024", "[2001:db8::2]:443").expect("addresses");
    let mut bytes = Vec::new();
    write(&mut bytes, Version::V2, told);
    let header = read(&bytes).expect("good").expect("whole");
    let expected = addresses("[::ffff:192.0.2.1]:1024", "[2001:db8::2]:443");
    assert_eq!(header.addresses, expected);
}
