//! Why the kernel does not serve us, in words a person can act on. The kernel itself mostly says "operation not
//! permitted", whatever the reason: what stands in the way is found by looking.

use std::error::Error;
use std::io;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;

use super::kernel::Direction;
use super::mapping::MappingError;

/// Why there is no BPF.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    #[error("this binary was built without kernel programs: run `cargo xtask build`")]
    NotBuilt,
    #[error("{0} missing: run as root, or grant it to the binary")]
    Capability(&'static str),
    #[error("the capabilities of a user namespace do not reach BPF: run outside of it")]
    UserNamespace,
    #[error("the kernel is locked down (/sys/kernel/security/lockdown)")]
    Lockdown,
    #[error("a seccomp filter forbids the bpf system call: allow it in the container's profile")]
    Seccomp,
    #[error("this kernel was built without the bpf system call")]
    NoBpf,
    #[error(
        "the verifier of this kernel refuses the program {program}: {}",
        tail(log)
    )]
    Verifier {
        program: &'static str,
        log: String,
        source: io::Error,
    },
    #[error("the program {program} is accepted, but does not run: {source}")]
    TestRun {
        program: &'static str,
        source: ProgramError,
    },
    #[error(
        "tables for so many endpoints and workers take {}, {table} alone {}, and this host has {} left: \
         lower --max-endpoints or --workers",
        in_mebibytes(*.total),
        in_mebibytes(*.bytes),
        in_mebibytes(*.available)
    )]
    Memory {
        /// The largest.
        table: &'static str,
        bytes: u64,
        /// Bytes of all tables.
        total: u64,
        available: u64,
    },
    #[error("this kernel makes no tables that can be mapped into memory, which takes Linux 5.5")]
    NotMappable,
    #[error("the table {table} cannot be mapped into memory: {source}")]
    Mapping {
        table: &'static str,
        source: MappingError,
    },
    #[error("the kernel programs are of another version than this binary: run `cargo xtask build`")]
    Layout,
    #[error("the kernel programs cannot be loaded: {}{}", in_one_line(.0), locked_memory_hint(.0))]
    Load(#[source] EbpfError),
    #[error("the table {table} cannot be used: {source}")]
    Table {
        table: &'static str,
        source: io::Error,
    },
}

impl Unavailable {
    /// Whether it is the programs that measure that cannot be had, and nothing else is known to be in the way.
    pub(super) fn is_of_measuring(&self) -> bool {
        let (Self::Verifier { program, .. } | Self::TestRun { program, .. }) = self else {
            return false;
        };
        Direction::BOTH.map(Direction::program).contains(program)
    }

    /// What stood in the way of loading.
    pub(super) fn load(error: EbpfError) -> Self {
        match refusal(&error) {
            Some(cause) => cause,
            None if matches!(error, EbpfError::ParseError(_)) => Self::Layout,
            None if is_invalid_table(&error) => Self::NotMappable,
            None => Self::Load(error),
        }
    }

    /// What the kernel had against a program.
    pub(super) fn program(program: &'static str, error: ProgramError) -> Self {
        match error {
            ProgramError::LoadError {
                io_error,
                verifier_log,
            } if io_error.raw_os_error() != Some(libc::EPERM) => Self::Verifier {
                program,
                log: verifier_log.to_string(),
                source: io_error,
            },
            error => Self::load(EbpfError::ProgramError(error)),
        }
    }
}

/// The cause behind "not permitted" or "no such system call", wherever in the chain of errors it hides.
fn refusal(error: &(dyn Error + 'static)) -> Option<Unavailable> {
    let code = os_error(error)?;
    let process = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let has_seccomp = field(&process, "Seccomp").is_some_and(|mode| mode == "2");
    match code {
        libc::EPERM => missing_capability(&process)
            .map(Unavailable::Capability)
            .or_else(|| is_in_user_namespace().then_some(Unavailable::UserNamespace))
            .or_else(|| is_locked_down().then_some(Unavailable::Lockdown))
            .or_else(|| has_seccomp.then_some(Unavailable::Seccomp)),
        libc::ENOSYS if has_seccomp => Some(Unavailable::Seccomp),
        libc::ENOSYS => Some(Unavailable::NoBpf),
        _ => None,
    }
}

/// Whether a kernel refused to make a table whose size is no reason to: it does not know a flag of it.
fn is_invalid_table(error: &EbpfError) -> bool {
    matches!(
        error,
        EbpfError::MapError(MapError::CreateError { io_error, .. })
            if io_error.raw_os_error() == Some(libc::EINVAL)
    )
}

fn os_error(error: &(dyn Error + 'static)) -> Option<i32> {
    match error.downcast_ref::<io::Error>() {
        Some(error) => error.raw_os_error(),
        None => os_error(error.source()?),
    }
}

// Bits of capabilities, as linux/capability.h numbers them.
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_BPF: u64 = 1 << 39;

/// What this process lacks of the capabilities BPF takes, by its `/proc/self/status`. CAP_SYS_ADMIN includes CAP_BPF,
/// which is younger.
fn missing_capability(status: &str) -> Option<&'static str> {
    let effective = u64::from_str_radix(field(status, "CapEff")?, 16).ok()?;
    let lacks_bpf = effective & (CAP_BPF | CAP_SYS_ADMIN) == 0;
    let lacks_net_admin = effective & CAP_NET_ADMIN == 0;
    match (lacks_bpf, lacks_net_admin) {
        (true, true) => Some("the capabilities CAP_BPF and CAP_NET_ADMIN are"),
        (true, false) => Some("the capability CAP_BPF is"),
        (false, true) => Some("the capability CAP_NET_ADMIN is"),
        (false, false) => None,
    }
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

fn is_in_user_namespace() -> bool {
    // Only the first user namespace maps every identity to itself.
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.is_empty() && !map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn is_locked_down() -> bool {
    std::fs::read_to_string("/sys/kernel/security/lockdown")
        .is_ok_and(|modes| !modes.contains("[none]"))
}

/// Before Linux 5.11 tables counted against the limit of locked memory.
fn locked_memory_hint(error: &EbpfError) -> String {
    match super::kernel::locked_memory_limit() {
        Some(bytes) if error.to_string().contains("map") => format!(
            " (locked memory is limited to {} KiB, which older kernels hold against tables)",
            bytes / 1024
        ),
        _ => String::new(),
    }
}

fn in_mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// An error with its causes.
pub(super) fn in_one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        // Some errors say what their cause says.
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

/// The last lines of a verifier's log: the instruction it stumbled over and why.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.trim_end().lines().collect();
    let last = lines.len().saturating_sub(6);
    lines[last..].join("\n")
}

#[cfg(test)]
mod tests {
    use aya_obj::VerifierLog;

    use super::*;

    #[test]
    fn every_missing_capability_is_named() {
        let status = |effective: u64| format!("Name:\tweir\nCapEff:\t{effective:016x}\n");
        let lacking = |effective| missing_capability(&status(effective));
        let both = "the capabilities CAP_BPF and CAP_NET_ADMIN are";
        assert_eq!(lacking(0), Some(both));
        assert_eq!(lacking(CAP_BPF), Some("the capability CAP_NET_ADMIN is"));
        assert_eq!(lacking(CAP_NET_ADMIN), Some("the capability CAP_BPF is"));
        assert_eq!(lacking(CAP_BPF | CAP_NET_ADMIN), None);
        let older = CAP_SYS_ADMIN | CAP_NET_ADMIN;
        assert_eq!(missing_capability(&status(older)), None);
        assert_eq!(missing_capability("Name:\tweir\n"), None);
    }

    #[test]
    fn what_the_verifier_refuses_is_told_from_what_is_not_permitted() {
        let refusal = |code| ProgramError::LoadError {
            io_error: io::Error::from_raw_os_error(code),
            verifier_log: VerifierLog::new("0: (b7) r0 = 0\n1: R7 !read_ok\n".to_owned()),
        };
        let refused = Unavailable::program("wire_egress", refusal(libc::EACCES)).to_string();
        assert!(
            refused.contains("refuses the program wire_egress"),
            "{refused}"
        );
        assert!(refused.contains("R7 !read_ok"), "{refused}");
        assert!(Unavailable::program("wire_egress", refusal(libc::EACCES)).is_of_measuring());
        assert!(!Unavailable::program("pick_worker", refusal(libc::EACCES)).is_of_measuring());
        let forbidden = Unavailable::program("wire_egress", refusal(libc::EPERM));
        assert!(!forbidden.is_of_measuring());
        assert!(
            !matches!(forbidden, Unavailable::Verifier { .. }),
            "{forbidden}"
        );
    }

    #[test]
    fn the_tail_of_a_verifier_log_is_its_last_lines() {
        assert_eq!(tail("1\n2\n3\n4\n5\n6\n7\n8\n"), "3\n4\n5\n6\n7\n8");
        assert_eq!(tail(""), "");
    }
}
