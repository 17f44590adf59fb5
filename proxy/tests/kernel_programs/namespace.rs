//! A network namespace for one test.

use std::process::Command;
use std::thread;

use crate::rig::skip;

/// Runs a test in a network namespace that ends with its thread.
pub fn on_a_loopback_of_its_own(test: impl FnOnce() + Send + 'static) {
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let inside = move || {
        // SAFETY: the call takes no pointer; it moves this thread alone, which has nothing open in the old namespace.
        let left = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        if left != 0 {
            return skip("a network namespace of its own, which takes root");
        }
        if !ip("link set lo up") {
            return skip("the ip command of iproute2");
        }
        test();
    };
    let thread = thread::Builder::new().name(name).spawn(inside);
    let done = thread.expect("a thread can be made").join();
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}

/// Runs iproute2 in the namespace of this thread; says whether it did as told.
pub fn ip(words: &str) -> bool {
    let status = Command::new("ip").args(words.split(' ')).status();
    status.is_ok_and(|status| status.success())
}
