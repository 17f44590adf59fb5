//! System calls taken away from a child, as the profiles of containers do.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the kernel answer `call` with `error`, in the program and in all it starts.
pub fn refuse(command: &mut Command, call: libc::c_long, error: i32) {
    install(command, filter(call as u32, error as u32));
}

/// The same, only where the first argument is this: one command of a call that has several.
pub fn refuse_command(command: &mut Command, call: libc::c_long, first: u32, error: i32) {
    let [load, compare, refuse, pass] = filter(call as u32, error as u32);
    // Six steps: the call, its first argument, the answer.
    let compare_call = libc::sock_filter { jf: 3, ..compare };
    let load_first = libc::sock_filter {
        k: ARGUMENTS,
        ..load
    };
    let compare_first = libc::sock_filter {
        k: first,
        ..compare
    };
    let steps = [load, compare_call, load_first, compare_first, refuse, pass];
    install(command, steps);
}

/// Where the kernel shows the lower half of the first argument, on little-endian machines.
const ARGUMENTS: u32 = 16;

fn install<const N: usize>(command: &mut Command, steps: [libc::sock_filter; N]) {
    let enter = move || {
        let mut steps = steps;
        let program = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        // SAFETY: the call takes numbers. Without it only root may filter.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: the kernel copies the program and its steps, which live through the call.
        match unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure only calls prctl; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(enter) };
}

/// Loads the number of the call, the first word the kernel shows; compares; refuses or lets pass.
fn filter(call: u32, error: u32) -> [libc::sock_filter; 4] {
    let step = |code: u32, skip_unless: u8, value: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: skip_unless,
        k: value,
    };
    let refuse = libc::SECCOMP_RET_ERRNO | error;
    [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call),
        step(libc::BPF_RET | libc::BPF_K, 0, refuse),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
