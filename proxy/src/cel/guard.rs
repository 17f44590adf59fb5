//! The interpreter is not ours: should it panic on some value, the request goes without, and its worker lives on. The
//! message of such a panic may quote the request, so it is not printed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Makes the panic hook of this process keep quiet about what is guarded; whatever hook there was has all the others.
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(hush);
}

fn hush() {
    let previous = take_hook();
    set_hook(Box::new(move |panic| {
        if !IS_GUARDED.get() {
            previous(panic);
        }
    }));
}

/// What it returns; `None` if it panics.
pub fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    IS_GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_GUARDED.set(false);
    result.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use cel_interpreter::{Context, ExecutionError, Value};

    use super::*;

    #[test]
    fn a_panic_of_the_interpreter_has_no_value_and_is_not_printed() {
        install();
        let here = std::thread::current().id();
        let printed = Arc::new(Mutex::new(0));
        let original: Arc<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync> =
            take_hook().into();
        let (count, others) = (Arc::clone(&printed), Arc::clone(&original));
        set_hook(Box::new(move |panic| {
            if std::thread::current().id() == here {
                *count.lock().expect("a number") += 1;
            } else {
                others(panic);
            }
        }));
        hush();

        let mut context = Context::default();
        let boom = || -> Result<Value, ExecutionError> { panic!("s-1, a session of somebody") };
        context.add_function("boom", boom).expect("a new function");
        let program = cel_interpreter::Program::compile("boom()").expect("an expression");
        let value = guarded(|| program.execute(&context));
        let quiet = *printed.lock().expect("a number");
        let other = catch_unwind(|| panic!("of something else"));
        let loud = *printed.lock().expect("a number");
        set_hook(Box::new(move |panic| original(panic)));

        assert!(value.is_none());
        assert!(other.is_err());
        assert_eq!((quiet, loud), (0, 1));
        assert_eq!(guarded(|| 7), Some(7));
    }
}
