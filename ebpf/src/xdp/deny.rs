//! The deny list: the longest prefix that holds a source, of either family. Each family has a table of its own, so that
//! a short prefix of IPv6 never holds addresses of IPv4.

use aya_ebpf::helpers::generated::bpf_map_lookup_elem;
use weir_common::{Address, DenyKeyV4, DenyKeyV6};

use crate::tables::{DENY_V4, DENY_V6};

#[inline(always)]
pub fn has_v4(source: u32) -> bool {
    let key = DenyKeyV4 {
        length: 32,
        address: source,
    };
    let table = (&raw const DENY_V4).cast_mut().cast();
    // SAFETY: the helper reads the table's key size, which is `key`'s, from `key`.
    let found = unsafe { bpf_map_lookup_elem(table, (&raw const key).cast()) };
    !found.is_null()
}

#[inline(always)]
pub fn has_v6(source: Address) -> bool {
    let key = DenyKeyV6 {
        length: 128,
        address: source,
    };
    let table = (&raw const DENY_V6).cast_mut().cast();
    // SAFETY: the helper reads the table's key size, which is `key`'s, from `key`.
    let found = unsafe { bpf_map_lookup_elem(table, (&raw const key).cast()) };
    !found.is_null()
}
