//! Programs of a few instructions, written by hand and loaded past the proxy: a stranger's, an empty one, and one that
//! writes a packet anew before each run of another. A program that counts must be shown new bytes every time, and one that
//! rewrites packets must not be shown its own work.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Types of programs, of the kernel's `enum bpf_prog_type`.
pub const SCHED_CLS: u32 = 3;
pub const XDP: u32 = 6;
/// Of the kernel's `enum bpf_attach_type`.
pub const XDP_ATTACH: u32 = 37;
const XDP_HAS_FRAGS: u32 = 1 << 5;

// Of the kernel's `enum bpf_cmd`.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;

// Of the kernel's `enum bpf_map_type`.
const ARRAY: u32 = 2;
const PROG_ARRAY: u32 = 3;

/// Answers zero: of `xdp_ingress` that would be an error, but nothing is done in a test run.
pub const EMPTY: [u64; 2] = [set(0, 0), EXIT];

/// Four bytes of a packet that are another number every time.
#[derive(Clone, Copy, Debug)]
pub struct Varying {
    pub at: usize,
    pub first: u32,
    pub step: u32,
}

/// A program that writes the headers of a packet and goes on as another.
pub struct Prelude {
    program: OwnedFd,
    _next: OwnedFd,
    _number: OwnedFd,
}

impl Prelude {
    /// Before `next`, which is of type `kind`.
    pub fn new(
        kind: u32,
        headers: &[u8],
        varying: Option<Varying>,
        next: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        let programs = create_map(PROG_ARRAY, 4)?;
        update(&programs, next.as_raw_fd() as u32)?;
        let number = create_map(ARRAY, 4)?;
        update(&number, varying.map_or(0, |varying| varying.first))?;
        let code = instructions(kind, headers, varying, &programs, &number);
        Ok(Self {
            program: load(kind, &code, c"prelude")?,
            _next: programs,
            _number: number,
        })
    }

    /// Shows it the packet that is to be written, `repeat` times; returns the answer, and what a run takes. The kernel
    /// reads the link header before there is a program.
    pub fn run(&self, packet: &[u8], repeat: u32) -> io::Result<(u32, Duration)> {
        let mut run = Run {
            program: self.program.as_raw_fd() as u32,
            data_size: packet.len() as u32,
            data: packet.as_ptr() as u64,
            repeat,
            ..Run::default()
        };
        // SAFETY: the attributes are those of the command; the packet is as long as said, and outlives it.
        unsafe { bpf(PROG_TEST_RUN, &mut run) }?;
        Ok((run.result, Duration::from_nanos(run.duration.into())))
    }
}

fn instructions(
    kind: u32,
    headers: &[u8],
    varying: Option<Varying>,
    programs: &OwnedFd,
    number: &OwnedFd,
) -> Vec<u64> {
    // Where the context holds the packet's bounds.
    let (data, data_end) = if kind == XDP { (0, 4) } else { (76, 80) };
    let mut code = vec![copy(6, 1), load_word(2, 1, data), load_word(3, 1, data_end)];
    code.extend([copy(4, 2), add(4, headers.len() as i32)]);
    let leave = code.len();
    code.push(0);
    let (words, rest) = headers.as_chunks::<4>();
    for (place, word) in words.iter().enumerate() {
        code.push(store(STORE_WORD, 4 * place, i32::from_ne_bytes(*word)));
    }
    for (place, byte) in rest.iter().enumerate() {
        code.push(store(STORE_BYTE, 4 * words.len() + place, i32::from(*byte)));
    }
    if let Some(varying) = varying {
        code.extend(address_of_value(1, number));
        code.extend([load_word(0, 1, 0), add(0, varying.step as i32)]);
        code.extend([store_register(1, 0, 0), TO_NETWORK_ORDER]);
        code.push(store_register(2, varying.at, 0));
    }
    code.push(copy(1, 6));
    code.extend(address_of_map(2, programs));
    code.extend([set(3, 0), TAIL_CALL]);
    // A packet that is too short, or a next program that is not there.
    code[leave] = jump_if_greater(4, 3, code.len() - leave - 1);
    code.extend([set(0, LEFT), EXIT]);
    code
}

/// What no program of ours answers.
const LEFT: i32 = 99;

// Instructions: eight bits of code, four of each register, 16 of offset, 32 of number.
const EXIT: u64 = 0x95;
const TAIL_CALL: u64 = 0x85 | 12 << 32;
/// Of the number in register 0.
const TO_NETWORK_ORDER: u64 = 0xdc | 32 << 32;
const STORE_WORD: u64 = 0x62;
const STORE_BYTE: u64 = 0x72;

const fn encode(code: u64, to: u64, from: u64, offset: u64, number: i32) -> u64 {
    code | to << 8 | from << 12 | offset << 16 | (number as u32 as u64) << 32
}

const fn set(register: u64, number: i32) -> u64 {
    encode(0xb7, register, 0, 0, number)
}

const fn copy(to: u64, from: u64) -> u64 {
    encode(0xbf, to, from, 0, 0)
}

const fn add(register: u64, number: i32) -> u64 {
    encode(0x07, register, 0, 0, number)
}

const fn load_word(to: u64, from: u64, offset: u64) -> u64 {
    encode(0x61, to, from, offset, 0)
}

const fn store_register(to: u64, offset: usize, from: u64) -> u64 {
    encode(0x63, to, from, offset as u64, 0)
}

/// Into the packet, which register 2 points to.
const fn store(code: u64, offset: usize, number: i32) -> u64 {
    encode(code, 2, 0, offset as u64, number)
}

const fn jump_if_greater(one: u64, other: u64, instructions: usize) -> u64 {
    encode(0x2d, one, other, instructions as u64, 0)
}

fn address_of_map(register: u64, map: &OwnedFd) -> [u64; 2] {
    [encode(0x18, register, 1, 0, map.as_raw_fd()), 0]
}

/// Of the first value of an array.
fn address_of_value(register: u64, map: &OwnedFd) -> [u64; 2] {
    [encode(0x18, register, 2, 0, map.as_raw_fd()), 0]
}

/// A program of these instructions, under a name of at most 15 bytes.
pub fn load(kind: u32, instructions: &[u64], name: &CStr) -> io::Result<OwnedFd> {
    let mut padded = [0; 16];
    padded[..name.count_bytes()].copy_from_slice(name.to_bytes());
    let mut load = Load {
        kind,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        flags: if kind == XDP { XDP_HAS_FRAGS } else { 0 },
        attach_type: if kind == XDP { XDP_ATTACH } else { 0 },
        name: padded,
        ..Load::default()
    };
    // SAFETY: the attributes are those of the command; the instructions and the text outlive it.
    unsafe { bpf_fd(PROG_LOAD, &mut load) }
}

/// A table with one value of so many bytes.
fn create_map(kind: u32, value_size: u32) -> io::Result<OwnedFd> {
    let mut attributes = [kind, 4, value_size, 1];
    // SAFETY: the attributes are the beginning of those of the command, which holds no address.
    unsafe { bpf_fd(MAP_CREATE, &mut attributes) }
}

/// Sets the one value.
fn update(map: &OwnedFd, value: u32) -> io::Result<()> {
    let key = 0_u32;
    let mut attributes = [
        map.as_raw_fd() as u64,
        (&raw const key) as u64,
        (&raw const value) as u64,
        0,
    ];
    // SAFETY: the attributes are those of the command; key and value are as long as the map's, and outlive it.
    unsafe { bpf(MAP_UPDATE, &mut attributes) }.map(|_| ())
}

#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct Run {
    program: u32,
    result: u32,
    data_size: u32,
    data_out_size: u32,
    data: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

/// A command that answers with a new descriptor.
///
/// # Safety
/// As for [`bpf`]; `command` is one of those.
pub unsafe fn bpf_fd<A>(command: libc::c_int, attributes: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: passed on.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the command succeeded and returned a descriptor nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// # Safety
/// The attributes are those of `command`, and addresses in them are good for what it does with them.
unsafe fn bpf<A>(command: libc::c_int, attributes: &mut A) -> io::Result<libc::c_long> {
    let (attributes, size) = (std::ptr::from_mut(attributes), size_of::<A>());
    // SAFETY: the kernel reads and writes `size` bytes at `attributes`; the caller answers for what they point to.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}
