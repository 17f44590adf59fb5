//! Which sockets new connections can be steered to.

/// Listeners whose connections can be steered at one time. Each has a socket for every worker.
pub const LISTENER_GROUPS: u32 = 256;

/// `LISTENER_GROUP`: where in `LISTENER` the sockets of one listener are, by the cookie (`SO_COOKIE`) of any of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerGroup {
    /// Row of `LISTENER` with the socket of worker 0; those of other workers follow in their order.
    pub first: u32,
    pub workers: u32,
    /// 1 once no more clients are wanted: who comes now is refused, who is half connected comes in.
    pub is_closing: u32,
    pub padding: u32,
}

const _: () = assert!(size_of::<ListenerGroup>() == 16);
