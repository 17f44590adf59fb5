//! Keys of the hash tables from addresses as the standard library has them.

use std::net::{IpAddr, SocketAddr};

use weir_common::{Address, EndpointId, FlowKey};

/// IP protocol number of TCP.
const TCP: u8 = 6;

/// The connection between two addresses, seen from `local`.
pub fn flow_key(local: SocketAddr, remote: SocketAddr) -> FlowKey {
    FlowKey {
        local: address(local.ip()),
        remote: address(remote.ip()),
        local_port: local.port().to_be(),
        remote_port: remote.port().to_be(),
    }
}

/// Who listens at `address` with TCP.
pub fn endpoint_id(at: SocketAddr) -> EndpointId {
    EndpointId {
        address: address(at.ip()),
        port: at.port().to_be(),
        protocol: TCP,
        padding: 0,
    }
}

/// The address behind what [`address`] makes of one.
pub fn ip(address: Address) -> IpAddr {
    let mut octets = [0; 16];
    for (place, word) in octets.chunks_exact_mut(4).zip(address) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    IpAddr::from(octets).to_canonical()
}

/// IPv4 becomes mapped IPv6. A socket of both families reports its IPv4 peers that way already, and gets the same key.
pub fn address(ip: IpAddr) -> Address {
    let v6 = match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut words = Address::default();
    for (word, bytes) in words.iter_mut().zip(v6.octets().as_chunks().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_has_the_key_of_the_ipv4_address_it_stands_for() {
        let remote = "10.0.0.2:80".parse().expect("an address");
        let plain = flow_key("10.0.0.1:40000".parse().expect("an address"), remote);
        let mapped = flow_key(
            "[::ffff:10.0.0.1]:40000".parse().expect("an address"),
            remote,
        );
        assert_eq!(plain, mapped);
    }

    #[test]
    fn keys_lie_in_memory_as_addresses_and_ports_lie_in_packets() {
        let key = flow_key(
            "10.0.0.1:258".parse().expect("an address"),
            "[2001:db8::1]:80".parse().expect("an address"),
        );
        assert_eq!(key.local[2].to_ne_bytes(), [0, 0, 0xff, 0xff]);
        assert_eq!(key.local[3].to_ne_bytes(), [10, 0, 0, 1]);
        assert_eq!(key.local_port.to_ne_bytes(), [1, 2]);
        assert_eq!(key.remote[0].to_ne_bytes(), [0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(key.remote_port.to_ne_bytes(), [0, 80]);
    }
}
