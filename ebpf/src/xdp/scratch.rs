//! Room for what does not fit on the stack, which holds 512 bytes: one place for each CPU. A program is not interrupted by
//! itself, so that whoever asks has the place until the program ends.

use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use weir_common::{Connection, ConnectionKey, Reason};

use super::route::Question;

#[repr(C)]
struct Scratch {
    question: Question,
    to_endpoint: Connection,
    to_client: Connection,
    key: ConnectionKey,
    other_key: ConnectionKey,
}

#[map]
static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);

macro_rules! place {
    ($(#[$meta:meta])* $name:ident: $type:ty) => {
        $(#[$meta])*
        #[inline(always)]
        pub fn $name() -> Result<&'static mut $type, Reason> {
            let scratch = SCRATCH.get_ptr_mut(0).ok_or(Reason::OutOfRange)?;
            // SAFETY: the table has one element for each CPU, which lives as long as the table.
            let place = unsafe { &raw mut (*scratch).$name };
            // SAFETY: as above; each place is asked for by one function only, which does not call itself.
            Ok(unsafe { &mut *place })
        }
    };
}

place! {
    /// For `Route::find`.
    question: Question
}
place! {
    /// For `service::open`.
    to_endpoint: Connection
}
place! {
    /// For `connection::open`.
    to_client: Connection
}
place! {
    /// For whatever leads from one element to the other.
    key: ConnectionKey
}
place! {
    /// For the element in the way of a port.
    other_key: ConnectionKey
}
