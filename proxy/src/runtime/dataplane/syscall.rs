//! bpf(2) without a library in between: elements of tables that are not mapped, what a table looks like, and the call
//! itself.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use weir_common::{
    Address, Connection, ConnectionKey, DenyKeyV4, DenyKeyV6, EndpointId, EndpointIdValue,
    EndpointWire, Flow, FlowKey, ListenerGroup, Service, ServiceEndpoint, ServiceKey, Vip, VipKey,
};

/// What the kernel reads or writes: a key or value of a hash table, or what it tells of an object.
///
/// # Safety
/// The type is `repr(C)`, consists of plain integers and has no implicit padding, so that the kernel may read and
/// write all its bytes.
pub unsafe trait Plain: Copy + Default {}

// SAFETY: two addresses and two ports, 36 bytes together, as `weir_common` asserts.
unsafe impl Plain for FlowKey {}
// SAFETY: plain integers that fill 48 bytes, as `weir_common` asserts.
unsafe impl Plain for Flow {}
// SAFETY: plain integers that fill 20 bytes, as `weir_common` asserts.
unsafe impl Plain for EndpointId {}
// SAFETY: plain integers that fill 16 bytes, as `weir_common` asserts.
unsafe impl Plain for EndpointIdValue {}
// SAFETY: integers, those that pad it included, that fill 128 bytes, as `weir_common` asserts.
unsafe impl Plain for EndpointWire {}
// SAFETY: plain integers that fill 16 bytes, as `weir_common` asserts.
unsafe impl Plain for ListenerGroup {}
// SAFETY: six words, as `weir_common` asserts.
unsafe impl Plain for VipKey {}
// SAFETY: plain integers that fill 136 bytes, as `weir_common` asserts.
unsafe impl Plain for Vip {}
// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}
// SAFETY: integers without padding.
unsafe impl Plain for Address {}
// SAFETY: two integers that fill 8 bytes, as `weir_common` asserts.
unsafe impl Plain for DenyKeyV4 {}
// SAFETY: two addresses' words and integers that fill 56 bytes, as `weir_common` asserts.
unsafe impl Plain for ServiceEndpoint {}
// SAFETY: plain integers that fill 20 bytes, as `weir_common` asserts.
unsafe impl Plain for ServiceKey {}
// SAFETY: two integers that fill 8 bytes, as `weir_common` asserts.
unsafe impl Plain for Service {}
// SAFETY: five integers that fill 20 bytes, as `weir_common` asserts.
unsafe impl Plain for DenyKeyV6 {}
// SAFETY: two addresses' words and integers, those that pad it included, that fill 40 bytes, as `weir_common` asserts.
unsafe impl Plain for ConnectionKey {}
// SAFETY: two addresses' words and integers that fill 64 bytes, as `weir_common` asserts.
unsafe impl Plain for Connection {}
// SAFETY: six integers without a gap.
unsafe impl Plain for Shape {}

/// A table of the kernel that is asked by key: hashes, prefixes, arrays that are not mapped.
pub struct HashTable<K, V> {
    fd: OwnedFd,
    types: PhantomData<fn(K) -> V>,
}

impl<K: Plain, V: Plain> HashTable<K, V> {
    /// # Errors
    /// `InvalidData` if the table's keys or values are of another size.
    pub fn over(fd: OwnedFd) -> io::Result<Self> {
        let shape = Shape::of(fd.as_fd())?;
        let expected = (size_of::<K>(), size_of::<V>());
        if (shape.key_size as usize, shape.value_size as usize) != expected {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self {
            fd,
            types: PhantomData,
        })
    }

    /// Adds an element or replaces it.
    ///
    /// # Errors
    /// `E2BIG` when the table is full.
    pub fn insert(&self, key: &K, value: &V) -> io::Result<()> {
        self.element(BPF_MAP_UPDATE_ELEM, key, std::ptr::from_ref(value) as u64)
    }

    pub fn find(&self, key: &K) -> io::Result<Option<V>> {
        let mut value = V::default();
        let place = std::ptr::from_mut(&mut value) as u64;
        absent_is_none(self.element(BPF_MAP_LOOKUP_ELEM, key, place))
            .map(|found| found.map(|()| value))
    }

    /// All elements, of a table nobody else adds to or removes from meanwhile.
    pub fn all(&self) -> io::Result<Vec<(K, V)>> {
        let mut elements = Vec::new();
        let mut key = None;
        while let Some(next) = self.key_after(key.as_ref())? {
            if let Some(value) = self.find(&next)? {
                elements.push((next, value));
            }
            key = Some(next);
        }
        Ok(elements)
    }

    /// The first one without a key; None after the last.
    fn key_after(&self, key: Option<&K>) -> io::Result<Option<K>> {
        let mut next = K::default();
        let mut attributes = ElementAttributes {
            map_fd: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: key.map_or(0, |key| std::ptr::from_ref(key) as u64),
            value: std::ptr::from_mut(&mut next) as u64,
            flags: 0,
        };
        // SAFETY: `key` is null or points to a `K`, and `value` to another one, both alive for the call; `over` checked
        // that the table's keys are of their size, and `Plain` that the kernel may write all their bytes.
        let found = unsafe { bpf(BPF_MAP_GET_NEXT_KEY, &mut attributes) };
        Ok(absent_is_none(found)?.map(|()| next))
    }

    /// As many elements of a hash as fit, from `place` on, which moves behind them: one that stays in the table all the
    /// while is met once in a walk from `Place::Start` to `Place::End`.
    ///
    /// # Errors
    /// `Unsupported` and the like before Linux 5.6, and what the kernel says.
    pub fn some_at(&self, place: &mut Place, elements: &mut Batch<K, V>) -> io::Result<()> {
        elements.count = 0;
        let mut behind = 0_u32;
        let mut attributes = BatchAttributes {
            from: match place {
                Place::Start => 0,
                Place::Bucket(bucket) => std::ptr::from_ref(bucket) as u64,
                Place::End => return Ok(()),
            },
            behind: std::ptr::from_mut(&mut behind) as u64,
            keys: elements.keys.as_mut_ptr() as u64,
            values: elements.values.as_mut_ptr() as u64,
            count: elements.keys.len() as u32,
            map_fd: self.fd.as_raw_fd() as u32,
            element_flags: 0,
            flags: 0,
        };
        // SAFETY: `keys` and `values` have room for `count` of each, `from` is null or points to a u32 and `behind` to
        // another, all alive for the call; `over` checked the sizes, and `Plain` that the kernel may write all bytes.
        let found = unsafe { bpf(BPF_MAP_LOOKUP_BATCH, &mut attributes) };
        let is_more = absent_is_none(found)?.is_some();
        elements.count = attributes.count as usize;
        *place = if is_more {
            Place::Bucket(behind)
        } else {
            Place::End
        };
        Ok(())
    }

    /// Says whether there was one.
    pub fn remove(&self, key: &K) -> io::Result<bool> {
        absent_is_none(self.element(BPF_MAP_DELETE_ELEM, key, 0)).map(|found| found.is_some())
    }

    fn element(&self, command: libc::c_int, key: &K, value: u64) -> io::Result<()> {
        let mut attributes = ElementAttributes {
            map_fd: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: std::ptr::from_ref(key) as u64,
            value,
            flags: 0,
        };
        // SAFETY: `key` points to a `K` and `value`, where the command uses one, to a `V`, both alive for the call;
        // `over` checked that the table's sizes are theirs, and `Plain` that the kernel may write all their bytes.
        unsafe { bpf(command, &mut attributes) }
    }
}

/// How far a walk over a hash has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Start,
    Bucket(u32),
    End,
}

/// Room for what a walk finds at one time.
pub struct Batch<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
    /// Of those found.
    count: usize,
}

impl<K: Plain, V: Plain> Batch<K, V> {
    pub fn with_room_for(count: usize) -> Self {
        Self {
            keys: vec![K::default(); count],
            values: vec![V::default(); count],
            count: 0,
        }
    }

    pub fn found(&self) -> impl Iterator<Item = (&K, &V)> {
        self.keys.iter().zip(&self.values).take(self.count)
    }
}

fn absent_is_none(result: io::Result<()>) -> io::Result<Option<()>> {
    match result {
        Ok(()) => Ok(Some(())),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sizes and flags of a table: the beginning of the kernel's `struct bpf_map_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    map_type: u32,
    id: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    flags: u32,
}

impl Shape {
    pub fn of(table: BorrowedFd<'_>) -> io::Result<Self> {
        info(table)
    }

    pub fn is_mappable(&self) -> bool {
        self.flags & BPF_F_MMAPABLE != 0
    }
}

/// What the kernel tells of an object: as much of it as `T` has room for.
pub fn info<T: Plain>(object: BorrowedFd<'_>) -> io::Result<T> {
    let mut found = T::default();
    let mut attributes = InfoAttributes {
        fd: object.as_raw_fd() as u32,
        length: size_of::<T>() as u32,
        info: std::ptr::from_mut(&mut found) as u64,
    };
    // SAFETY: `info` points to `length` bytes that outlive the call, and `Plain` lets the kernel write them.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }?;
    Ok(found)
}

// Command numbers of the kernel's `enum bpf_cmd`.
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_MAP_GET_NEXT_KEY: libc::c_int = 4;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// Attributes of the element commands. The kernel takes a shorter union for one whose rest is zero.
#[repr(C)]
struct ElementAttributes {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct BatchAttributes {
    from: u64,
    behind: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    element_flags: u64,
    flags: u64,
}

#[repr(C)]
struct InfoAttributes {
    fd: u32,
    length: u32,
    info: u64,
}

/// # Safety
/// `attributes` are those of `command`, and every address in them is good for what the command does with it.
pub unsafe fn bpf<A>(command: libc::c_int, attributes: &mut A) -> io::Result<()> {
    // SAFETY: passed on.
    unsafe { raw(command, attributes) }.map(|_| ())
}

/// A command that answers with a new descriptor.
///
/// # Safety
/// As for [`bpf`]; `command` is one of those.
pub unsafe fn bpf_fd<A>(command: libc::c_int, attributes: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: passed on.
    let fd = unsafe { raw(command, attributes) }?;
    // SAFETY: the command succeeded and returned a descriptor nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// # Safety
/// As for [`bpf`].
unsafe fn raw<A>(command: libc::c_int, attributes: &mut A) -> io::Result<libc::c_long> {
    let (attributes, size) = (std::ptr::from_mut(attributes), size_of::<A>());
    // SAFETY: the kernel reads and writes `size` bytes at `attributes`; the caller answers for what they point to.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}
