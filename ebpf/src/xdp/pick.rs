//! Power of two choices: two draws by weight, the better one wins, of equal ones the second. The score is the balancer's,
//! in whole numbers: health over `1 + latency * (1 + 0.1 * pending)`, compared crosswise, without a division.

use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use weir_common::{EndpointScore, Service, ServiceEndpoint};

use crate::tables::{ENDPOINT_SCORE, SERVICE_ENDPOINT};

#[inline(always)]
pub fn pick(service: Service) -> Option<&'static ServiceEndpoint> {
    if service.count == 0 {
        return None;
    }
    let (first, second) = (draw(service)?, draw(service)?);
    if first.endpoint == second.endpoint {
        return Some(second);
    }
    let (one, other) = (Reading::of(first.endpoint)?, Reading::of(second.endpoint)?);
    match one.health * other.delay > other.health * one.delay {
        true => Some(first),
        false => Some(second),
    }
}

#[inline(always)]
fn draw(service: Service) -> Option<&'static ServiceEndpoint> {
    let column = ((random() as u64 * service.count as u64) >> 32) as u32;
    let row = row(service.first.wrapping_add(column))?;
    match random() <= row.cut {
        true => Some(row),
        false => self::row(row.alias),
    }
}

#[inline(always)]
fn row(index: u32) -> Option<&'static ServiceEndpoint> {
    // User space writes no row that a service names.
    SERVICE_ENDPOINT.get(index)
}

#[inline(always)]
fn random() -> u32 {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_get_prandom_u32() }
}

/// Numerator and denominator of a score, of at most 16 and 45 bits.
struct Reading {
    health: u64,
    delay: u64,
}

impl Reading {
    #[inline(always)]
    fn of(endpoint: u32) -> Option<Self> {
        /// 10, in units of 2^-20 s: the formula's 1 s, times ten.
        const ONE: u64 = 10 << 20;
        let score = Row(ENDPOINT_SCORE.get_ptr(endpoint)?);
        let (packed, others) = (score.packed(), score.pending());
        let (opened, closed) = (score.opened(), score.closed());
        let open = opened.saturating_sub(closed);
        let pending = open.wrapping_add(others).min(0xffff);
        let latency = packed & 0xffff_ffff;
        Some(Self {
            health: packed >> 32,
            delay: ONE + latency * (10 + pending),
        })
    }
}

/// A row of `ENDPOINT_SCORE`.
#[derive(Clone, Copy)]
struct Row(*const EndpointScore);

macro_rules! field {
    ($name:ident) => {
        #[inline(always)]
        fn $name(self) -> u64 {
            // SAFETY: the pointer comes from the table's lookup, and rows live as long as the table.
            let field = unsafe { &raw const (*self.0).$name };
            // SAFETY: as above; an aligned u64 that others may write meanwhile, hence volatile.
            unsafe { field.read_volatile() }
        }
    };
}

impl Row {
    field!(packed);
    field!(pending);
    field!(opened);
    field!(closed);
}
