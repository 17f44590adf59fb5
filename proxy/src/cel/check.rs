//! Parses an expression and looks through it before it ever meets a request: every name is known, nesting is bounded,
//! and so is the work, counted in bytes touched on the largest request there can be. Names of headers are put in lower
//! case, as the interpreter's table of headers has them.

use std::sync::LazyLock;

use cel_interpreter::common::ast::{
    CallExpr, ComprehensionExpr, Expr, LiteralValue, SelectExpr, SourceInfo, operators,
};
use cel_interpreter::{Env, IdedExpr, extensions};

use super::attributes::{Attribute, Subject};
use super::shape::{attribute, is_headers, literal};
use super::{CompileError, Position};

/// Levels an expression may have.
const MAX_DEPTH: usize = 96;
/// Bytes an evaluation may touch on the largest request: some milliseconds.
const MAX_COST: u64 = 32 << 20;
/// The largest head, and with it any part of it.
const HEAD: u64 = 64 << 10;
/// Fields of a head.
const FIELDS: u64 = 128;
/// Bytes that compiling a pattern is worth.
const PATTERN: u64 = 1 << 20;

/// The standard functions, the string extension, and ours. `format` is left out: a few characters of it can ask for any
/// amount of padding.
const FUNCTIONS: [&str; 32] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "string",
    "int",
    "uint",
    "double",
    "bool",
    "bytes",
    "type",
    "dyn",
    "charAt",
    "indexOf",
    "lastIndexOf",
    "lowerAscii",
    "upperAscii",
    "replace",
    "split",
    "join",
    "substring",
    "trim",
    "reverse",
    "cookie",
    "of",
    "none",
    "ofNonZeroValue",
    "hasValue",
    "value",
    "or",
    "orValue",
];
const OPERATORS: [&str; 20] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::OPT_INDEX,
    operators::OPT_SELECT,
    operators::IN,
];
/// Names that stand for types, or for a family of functions.
const TYPES: [&str; 11] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "type",
    "null_type",
    "optional",
];

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
    let mut check = Check {
        source,
        subject,
        info,
        scope: Vec::new(),
        reads: Vec::new(),
    };
    let bound = check.expression(&mut expression, 0)?;
    if bound.cost > MAX_COST {
        return Err(CompileError::TooCostly);
    }
    Ok((expression, check.reads))
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

/// The most an expression can cost, and the most its value can hold.
#[derive(Clone, Copy, Debug, Default)]
struct Bound {
    cost: u64,
    /// Bytes, with those of all elements.
    size: u64,
    /// Elements.
    count: u64,
}

impl Bound {
    const fn of_size(size: u64) -> Self {
        Self {
            cost: 1,
            size,
            count: size,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            cost: self.cost.saturating_add(other.cost),
            size: self.size.saturating_add(other.size),
            count: self.count.saturating_add(other.count),
        }
    }
}

struct Check<'a> {
    source: &'a str,
    subject: Subject,
    info: SourceInfo,
    /// Variables of the comprehensions around.
    scope: Vec<(String, Bound)>,
    reads: Vec<Attribute>,
}

impl Check<'_> {
    fn expression(&mut self, it: &mut IdedExpr, depth: usize) -> Result<Bound, CompileError> {
        if depth > MAX_DEPTH {
            return Err(CompileError::TooDeep);
        }
        if let Some(attribute) = attribute(it).filter(|one| one.is_of(self.subject)) {
            return Ok(self.read(attribute));
        }
        let id = it.id;
        match &mut it.expr {
            Expr::Literal(LiteralValue::String(text)) => {
                Ok(Bound::of_size(text.inner().len() as u64))
            }
            Expr::Literal(LiteralValue::Bytes(bytes)) => {
                Ok(Bound::of_size(bytes.inner().len() as u64))
            }
            Expr::Literal(_) => Ok(Bound::of_size(8)),
            Expr::Ident(name) => self.variable(id, name),
            Expr::Select(select) => self.select(id, select, depth),
            Expr::Call(call) => self.call(id, call, depth),
            Expr::List(list) => self.all(list.elements.iter_mut(), depth),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, depth),
            Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => {
                Err(self.unknown(id, "{", "maps and messages cannot be made here".into()))
            }
        }
    }

    fn read(&mut self, attribute: Attribute) -> Bound {
        if !self.reads.contains(&attribute) {
            self.reads.push(attribute);
        }
        let headers = attribute.is_headers();
        Bound {
            cost: if headers { HEAD } else { 1 },
            size: HEAD,
            count: if headers { FIELDS } else { HEAD },
        }
    }

    fn variable(&self, id: u64, name: &str) -> Result<Bound, CompileError> {
        let mut scope = self.scope.iter().rev();
        if let Some((_, bound)) = scope.find(|(variable, _)| variable == name) {
            return Ok(*bound);
        }
        if TYPES.contains(&name) {
            return Ok(Bound::of_size(8));
        }
        let known = Attribute::all_of(self.subject);
        let known: Vec<String> = known.map(|one| format!("{}.{}", one.0, one.1)).collect();
        Err(self.unknown(id, name, format!("there are {}", known.join(", "))))
    }

    fn select(
        &mut self,
        id: u64,
        select: &mut SelectExpr,
        depth: usize,
    ) -> Result<Bound, CompileError> {
        if is_headers(&select.operand) {
            select.field.make_ascii_lowercase();
        } else if let Expr::Ident(root) = &select.operand.expr
            && Attribute::all_of(self.subject).any(|one| one.0 == root)
        {
            let fields = Attribute::all_of(self.subject)
                .filter(|one| one.0 == root)
                .map(|one| one.1);
            let fields: Vec<&str> = fields.collect();
            let name = format!("{root}.{}", select.field);
            return Err(self.unknown(id, &name, format!("{root} has {}", fields.join(", "))));
        }
        self.expression(&mut select.operand, depth + 1)
    }

    fn call(&mut self, id: u64, call: &mut CallExpr, depth: usize) -> Result<Bound, CompileError> {
        let name = call.func_name.as_str();
        if !FUNCTIONS.contains(&name)
            && !OPERATORS.contains(&name)
            && name != operators::NOT_STRICTLY_FALSE
        {
            let known = format!("there are {}", FUNCTIONS.join(", "));
            return Err(self.unknown(id, name, known));
        }
        if name == "matches" && call.args.last().and_then(literal).is_none() {
            return Err(CompileError::Pattern {
                position: self.position(id),
            });
        }
        if name == "cookie" {
            self.read(Attribute::Cookies);
        }
        match (name, &mut call.args[..]) {
            (operators::INDEX | operators::OPT_INDEX, [map, key]) if is_headers(map) => lower(key),
            (operators::OPT_SELECT, [map, key]) if is_headers(map) => lower(key),
            (operators::IN, [key, map]) if is_headers(map) => lower(key),
            _ => {}
        }
        let target = call.target.as_deref_mut();
        let parts = target.into_iter().chain(&mut call.args);
        let mut product = 1_u64;
        let mut sum = Bound::default();
        for part in parts {
            let bound = self.expression(part, depth + 1)?;
            product = product.saturating_mul(bound.size.max(1));
            sum = sum.and(bound);
        }
        let size = match call.func_name.as_str() {
            "replace" | "join" => product,
            _ => sum.size,
        };
        let pattern = if call.func_name == "matches" {
            PATTERN
        } else {
            0
        };
        Ok(Bound {
            cost: sum.cost.saturating_add(size).saturating_add(pattern),
            size,
            count: sum.count.min(size),
        })
    }

    fn all<'e>(
        &mut self,
        parts: impl Iterator<Item = &'e mut IdedExpr>,
        depth: usize,
    ) -> Result<Bound, CompileError> {
        let mut sum = Bound::default();
        let mut count = 0;
        for part in parts {
            sum = sum.and(self.expression(part, depth + 1)?);
            count += 1;
        }
        Ok(Bound { count, ..sum })
    }

    fn comprehension(
        &mut self,
        it: &mut ComprehensionExpr,
        depth: usize,
    ) -> Result<Bound, CompileError> {
        let range = self.expression(&mut it.iter_range, depth + 1)?;
        let start = self.expression(&mut it.accu_init, depth + 1)?;
        let turns = range.count.max(1);
        // On average: what is linear in its elements is linear in the whole.
        let element = Bound::of_size(range.size / turns + 1);
        let outer = self.scope.len();
        self.scope.push((it.iter_var.clone(), element));
        self.scope
            .extend(it.iter_var2.clone().map(|name| (name, element)));
        self.scope.push((it.accu_var.clone(), start));
        let turn = self
            .expression(&mut it.loop_cond, depth + 1)?
            .and(self.expression(&mut it.loop_step, depth + 1)?);
        let result = self.expression(&mut it.result, depth + 1)?;
        self.scope.truncate(outer);
        let size = turn.size.saturating_mul(turns);
        let cost = turn.cost.saturating_mul(turns);
        Ok(Bound {
            cost: [range.cost, start.cost, result.cost, size]
                .into_iter()
                .fold(cost, u64::saturating_add),
            size,
            count: turns,
        })
    }

    fn unknown(&self, id: u64, name: &str, known: String) -> CompileError {
        CompileError::Unknown {
            position: self.position(id),
            name: name.to_owned(),
            known,
        }
    }

    fn position(&self, id: u64) -> Position {
        let offset = self
            .info
            .offset_for(id)
            .map_or(0, |(start, _)| start as usize);
        let before: Vec<char> = self.source.chars().take(offset).collect();
        let line_start = before
            .iter()
            .rposition(|one| *one == '\n')
            .map_or(0, |at| at + 1);
        Position {
            line: 1 + before.iter().filter(|one| **one == '\n').count(),
            column: 1 + before.len() - line_start,
        }
    }
}

/// The name of a header, whatever the case it is written or computed in.
fn lower(key: &mut IdedExpr) {
    if let Some(text) = literal(key) {
        let text = text.to_ascii_lowercase();
        key.expr = Expr::Literal(LiteralValue::String(text.into()));
        return;
    }
    let inner = std::mem::take(key);
    key.id = inner.id;
    key.expr = Expr::Call(CallExpr {
        func_name: "lowerAscii".to_owned(),
        target: Some(Box::new(inner)),
        args: Vec::new(),
    });
}
