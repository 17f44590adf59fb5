//! From text to an expression that was looked through.

use std::sync::LazyLock;

use cel_interpreter::{Env, IdedExpr, extensions};

use super::attributes::{Attribute, Subject};
use super::check::check;
use super::{CompileError, Position};

/// What expressions are parsed and run with.
pub static ENV: LazyLock<std::sync::Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings)
        .expect("the string extension names nothing twice");
    env.into()
});

/// The expression and what it reads.
///
/// The parser goes down as many levels as a text has brackets and operators, so it gets a stack of its own, and what
/// nests too deeply is dropped there too.
pub fn parse(source: &str, subject: Subject) -> Result<(IdedExpr, Vec<Attribute>), CompileError> {
    const STACK: usize = 256 << 20;
    check_nesting(source)?;
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new()
            .name("weir-cel".into())
            .stack_size(STACK)
            .spawn_scoped(scope, || parse_here(source, subject));
        let parsed = parser.map_err(|_| CompileError::Unparsed)?.join();
        parsed.unwrap_or(Err(CompileError::Unparsed))
    })
}

fn parse_here(source: &str, subject: Subject) -> Result<(IdedExpr, Vec<Attribute>), CompileError> {
    let parsed = ENV.parser().parse_with_source_info(source);
    let (mut expression, info) = parsed.map_err(|errors| {
        // Errors without a place are what the parser made of those with one.
        let mut errors = errors.errors;
        errors.sort_by_key(|error| error.pos.0 == 0 || error.msg.starts_with("Incomplete"));
        let first = errors.into_iter().next();
        let (position, message) = first.map_or_else(
            || (Position { line: 1, column: 1 }, "not an expression".into()),
            |error| (position_of(error.pos), error.msg),
        );
        CompileError::Syntax { position, message }
    })?;
    let reads = check(source, subject, info, &mut expression)?;
    Ok((expression, reads))
}

fn position_of((line, column): (isize, isize)) -> Position {
    let number = |text: isize| usize::try_from(text).unwrap_or(1).max(1);
    Position {
        line: number(line),
        column: number(column),
    }
}

/// Before the parser sees it: every bracket and every operator may become a level.
fn check_nesting(source: &str) -> Result<(), CompileError> {
    const MAX_MARKS: usize = 1024;
    let marks = source
        .bytes()
        .filter(|byte| b"([{.?+-*/%!<>=&|".contains(byte))
        .count();
    if marks > MAX_MARKS {
        return Err(CompileError::TooDeep);
    }
    Ok(())
}
