//! Looks through an expression before it ever meets a request: every name is known, nesting is bounded, and so is the work.
//! Names of headers are put in lower case, as the interpreter's table of headers has them.

use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, MapExpr, SelectExpr, SourceInfo,
    operators,
};
use regex::RegexBuilder;

use super::attributes::{Attribute, Subject};
use super::bound::{Bound, FIELDS, HEAD, MAX_COST};
use super::names::{self, COALESCE, DEFAULT, FUNCTIONS, OPERATORS, TYPES};
use super::shape::{attribute, is_headers, literal};
use super::{CompileError, Position};

/// Levels an expression may have.
const MAX_DEPTH: usize = 96;
/// Levels that a fallback counts for: its arguments are evaluated by a function of ours, on the same stack.
const DEPTH_OF_FALLBACK: usize = 6;
/// Bytes a compiled pattern may take.
const MAX_PATTERN: usize = 128 << 10;

/// What an expression reads; an error if it cannot be used. `info` says where in `source` its parts stand.
pub fn check(
    source: &str,
    subject: Subject,
    info: SourceInfo,
    expression: &mut IdedExpr,
) -> Result<Vec<Attribute>, CompileError> {
    let mut check = Check {
        source,
        subject,
        info,
        scope: Vec::new(),
        reads: Vec::new(),
    };
    let bound = check.expression(expression, 0)?;
    if bound.cost > MAX_COST {
        return Err(CompileError::TooCostly);
    }
    Ok(check.reads)
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
            Expr::Map(map) => self.map(id, map, depth),
            Expr::Struct(_) | Expr::Unspecified => Err(self.no_message(id)),
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
        if let Some(reason) = names::variable_later(name) {
            return Err(self.later(id, name, reason));
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
            let name = format!("{root}.{}", select.field);
            if let Some(reason) = names::field_later(root, &select.field) {
                return Err(self.later(id, &name, reason));
            }
            let fields = Attribute::all_of(self.subject)
                .filter(|one| one.0 == root)
                .map(|one| one.1);
            let fields: Vec<&str> = fields.collect();
            return Err(self.unknown(id, &name, format!("{root} has {}", fields.join(", "))));
        }
        self.expression(&mut select.operand, depth + 1)
    }

    fn call(&mut self, id: u64, call: &mut CallExpr, depth: usize) -> Result<Bound, CompileError> {
        self.check_call(id, call)?;
        if call.func_name == "cookie" {
            self.read(Attribute::Cookies);
        }
        let name = call.func_name.as_str();
        match (name, &mut call.args[..]) {
            (operators::INDEX | operators::OPT_INDEX, [map, key]) if is_headers(map) => lower(key),
            (operators::OPT_SELECT, [map, key]) if is_headers(map) => lower(key),
            (operators::IN, [key, map]) if is_headers(map) => lower(key),
            _ => {}
        }
        let depth = match name {
            DEFAULT | COALESCE => depth + DEPTH_OF_FALLBACK,
            _ => depth + 1,
        };
        let target = call.target.as_deref_mut();
        let parts = target.into_iter().chain(&mut call.args);
        let mut bounds = Vec::new();
        for part in parts {
            bounds.push(self.expression(part, depth)?);
        }
        Ok(Bound::of_call(&call.func_name, &bounds))
    }

    /// Whether there is such a function, and it can be called like this.
    fn check_call(&self, id: u64, call: &CallExpr) -> Result<(), CompileError> {
        let name = call.func_name.as_str();
        let is_operator = OPERATORS.contains(&name) || name == operators::NOT_STRICTLY_FALSE;
        if !FUNCTIONS.contains(&name) && !is_operator {
            return Err(match names::function_later(name) {
                Some(reason) => self.later(id, name, reason),
                None => self.unknown(id, name, format!("there are {}", FUNCTIONS.join(", "))),
            });
        }
        if name == "matches" {
            self.check_pattern(id, call)?;
        }
        let wanted = match (name, &call.target, call.args.len()) {
            ("cookie", None, 1) | (DEFAULT, None, 2) | (COALESCE, None, 1..) => return Ok(()),
            ("cookie", ..) => "the name of the cookie, as in `cookie(\"session\")`",
            (DEFAULT, ..) => "an expression and what to take instead, as in `default(a, b)`",
            (COALESCE, ..) => "one expression or more, as in `coalesce(a, b, c)`",
            _ => return Ok(()),
        };
        Err(CompileError::Arguments {
            position: self.position(id),
            name: name.to_owned(),
            wanted,
        })
    }

    /// The interpreter compiles a pattern whenever it comes to it, so that it must be one that is soon compiled.
    fn check_pattern(&self, id: u64, call: &CallExpr) -> Result<(), CompileError> {
        let position = self.position(id);
        let Some(pattern) = call.args.last().and_then(literal) else {
            return Err(CompileError::Pattern { position });
        };
        let compiled = RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build();
        match compiled {
            Ok(_) => Ok(()),
            Err(regex::Error::CompiledTooBig(_)) => Err(CompileError::LargePattern { position }),
            Err(error) => {
                // The parser draws what it means over several lines; the last one says it.
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default();
                let reason = reason.trim_start_matches("error: ").to_owned();
                Err(CompileError::BadPattern { position, reason })
            }
        }
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

    fn map(&mut self, id: u64, map: &mut MapExpr, depth: usize) -> Result<Bound, CompileError> {
        let count = map.entries.len() as u64;
        let mut sum = Bound::default();
        for entry in &mut map.entries {
            let EntryExpr::MapEntry(entry) = &mut entry.expr else {
                return Err(self.no_message(id));
            };
            for part in [&mut entry.key, &mut entry.value] {
                sum = sum.and(self.expression(part, depth + 1)?);
            }
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

    fn no_message(&self, id: u64) -> CompileError {
        self.unknown(id, "{", "messages cannot be made here".into())
    }

    fn later(&self, id: u64, name: &str, reason: &'static str) -> CompileError {
        CompileError::Later {
            position: self.position(id),
            name: name.to_owned(),
            reason,
        }
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
