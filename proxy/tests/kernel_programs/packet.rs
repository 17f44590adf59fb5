//! Builds the packets an interface would show.

use std::net::{IpAddr, SocketAddr};

use weir::runtime::dataplane::Segments;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// A TCP segment in an Ethernet frame.
#[derive(Clone)]
pub struct Packet {
    source: SocketAddr,
    destination: SocketAddr,
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
    payload: usize,
    tcp_options: usize,
    ip_options: usize,
    extension_header: bool,
    /// The fragment field of IPv4, or a fragment header of IPv6.
    fragment: u16,
    padding: usize,
    cut: Option<usize>,
    beyond_64k: Option<Offload>,
    /// Kinds of VLAN tags behind the addresses.
    tags: &'static [u16],
    /// Bytes set at last: where they stand, from the header on, and which.
    changes: Vec<(Header, usize, u8)>,
    segment_size: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Header {
    Ethernet,
    Ip,
    Tcp,
}

/// As Linux aligns them: nothing, nothing, the option, two numbers (RFC 7323 section 3.2).
const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];

/// How Linux marks a packet whose length does not fit into the header's field. Ours are short: the programs cannot
/// tell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// The field is zero.
    ZeroLength,
    /// So it is in IPv6, and a hop-by-hop header holds the length.
    Jumbo,
}

impl Packet {
    pub fn new(source: SocketAddr, destination: SocketAddr, flags: u8) -> Self {
        Self {
            source,
            destination,
            flags,
            sequence: 1000,
            acknowledgment: 0,
            payload: 0,
            tcp_options: 0,
            ip_options: 0,
            extension_header: false,
            fragment: 0,
            padding: 0,
            cut: None,
            beyond_64k: None,
            tags: &[],
            changes: Vec::new(),
            segment_size: 0,
        }
    }

    pub fn sequence(self, sequence: u32) -> Self {
        Self { sequence, ..self }
    }

    pub fn acknowledgment(self, acknowledgment: u32) -> Self {
        Self {
            acknowledgment,
            ..self
        }
    }

    /// Bytes of payload.
    pub fn payload(self, payload: usize) -> Self {
        Self { payload, ..self }
    }

    /// Bytes of TCP options, a multiple of four up to 40; timestamps, if they fit.
    pub fn tcp_options(self, tcp_options: usize) -> Self {
        Self {
            tcp_options,
            ..self
        }
    }

    /// Bytes of IPv4 options, a multiple of four up to 40.
    pub fn ip_options(self, ip_options: usize) -> Self {
        Self { ip_options, ..self }
    }

    /// Puts a destination options header of IPv6 before TCP.
    pub fn extension_header(self) -> Self {
        Self {
            extension_header: true,
            ..self
        }
    }

    /// Makes it a fragment: offset in units of eight bytes, and 0x2000 if more follow.
    pub fn fragment(self, fragment: u16) -> Self {
        Self { fragment, ..self }
    }

    /// Bytes behind the packet that do not belong to it, as in short Ethernet frames.
    pub fn padding(self, padding: usize) -> Self {
        Self { padding, ..self }
    }

    /// Cuts the frame after this many bytes.
    pub fn cut(self, length: usize) -> Self {
        Self {
            cut: Some(length),
            ..self
        }
    }

    /// Marks it as what segmentation offload keeps together beyond 64 KiB.
    pub fn beyond_64k(self, offload: Offload) -> Self {
        Self {
            beyond_64k: Some(offload),
            ..self
        }
    }

    /// VLAN tags of these kinds.
    pub fn tags(self, tags: &'static [u16]) -> Self {
        Self { tags, ..self }
    }

    /// Sets a byte of the Ethernet header, which nothing is behind.
    pub fn ethernet_byte(self, at: usize, byte: u8) -> Self {
        self.change(Header::Ethernet, at, byte)
    }

    /// Sets a byte of the IP header, or behind it.
    pub fn ip_byte(self, at: usize, byte: u8) -> Self {
        self.change(Header::Ip, at, byte)
    }

    /// Sets a byte of the TCP header, or behind it.
    pub fn tcp_byte(self, at: usize, byte: u8) -> Self {
        self.change(Header::Tcp, at, byte)
    }

    /// Carries another protocol than TCP.
    pub fn protocol(self, protocol: u8) -> Self {
        let at = if self.source.is_ipv4() { 9 } else { 6 };
        self.ip_byte(at, protocol)
    }

    fn change(mut self, header: Header, at: usize, byte: u8) -> Self {
        self.changes.push((header, at, byte));
        self
    }

    /// Segments of this many bytes, which segmentation offload keeps together.
    pub fn in_segments_of(self, segment_size: u16) -> Self {
        Self {
            segment_size,
            ..self
        }
    }

    /// What the kernel would know of it besides its bytes.
    pub fn segments(&self) -> Segments {
        if self.segment_size == 0 {
            return Segments::default();
        }
        Segments {
            count: self.payload.div_ceil(self.segment_size.into()) as u16,
            size: self.segment_size,
        }
    }

    /// Where TCP begins.
    pub fn tcp_at(&self) -> usize {
        self.ip_at()
            + match self.source {
                SocketAddr::V4(_) => 20 + self.ip_options,
                SocketAddr::V6(_) => 40 + self.extension(0).1.len(),
            }
    }

    fn ip_at(&self) -> usize {
        14 + 4 * self.tags.len()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for kind in self.tags {
            frame.extend(kind.to_be_bytes());
            frame.extend([0, 7]);
        }
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = 20 + self.ip_options;
                frame.extend([0x08, 0x00, 0x40 | (header / 4) as u8, 0]);
                frame.extend(self.length_field(header + tcp.len()));
                frame.extend([0, 0]);
                frame.extend(self.fragment.to_be_bytes());
                frame.extend([64, 6, 0, 0]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
                frame.resize(frame.len() + self.ip_options, 1);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let (next, extension) = self.extension(tcp.len());
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend(self.length_field(extension.len() + tcp.len()));
                frame.extend([next, 64]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
                frame.extend(extension);
            }
            _ => panic!("both ends are of one family"),
        }
        frame.extend(tcp);
        frame.resize(frame.len() + self.padding, 0);
        for (header, at, byte) in &self.changes {
            let start = match header {
                Header::Ethernet => 0,
                Header::Ip => self.ip_at(),
                Header::Tcp => self.tcp_at(),
            };
            frame[start + at] = *byte;
        }
        if let Some(length) = self.cut {
            frame.truncate(length);
        }
        frame
    }

    fn length_field(&self, length: usize) -> [u8; 2] {
        match self.beyond_64k {
            Some(_) => [0, 0],
            None => (length as u16).to_be_bytes(),
        }
    }

    fn extension(&self, tcp: usize) -> (u8, Vec<u8>) {
        if self.beyond_64k == Some(Offload::Jumbo) {
            let mut jumbo = vec![6, 0, 0xc2, 4];
            jumbo.extend((8 + tcp as u32).to_be_bytes());
            return (0, jumbo);
        }
        if self.extension_header {
            return (60, vec![6, 0, 1, 4, 0, 0, 0, 0]);
        }
        if self.fragment != 0 {
            let more = self.fragment >> 13 & 1;
            let [high, low] = (self.fragment << 3 | more).to_be_bytes();
            return (44, vec![6, 0, high, low, 0, 0, 0, 1]);
        }
        (6, Vec::new())
    }

    fn tcp(&self) -> Vec<u8> {
        let header = 20 + self.tcp_options;
        let mut tcp = Vec::with_capacity(header + self.payload);
        tcp.extend(self.source.port().to_be_bytes());
        tcp.extend(self.destination.port().to_be_bytes());
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledgment.to_be_bytes());
        tcp.extend([(header / 4) as u8 * 16, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        if self.tcp_options >= TIMESTAMPS.len() {
            tcp.extend(TIMESTAMPS);
        }
        tcp.resize(header, 1);
        tcp.resize(header + self.payload, b'x');
        tcp
    }
}
