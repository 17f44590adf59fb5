//! `default` and `coalesce`: the interpreter evaluates the arguments of a function before it calls it, and one that is
//! missing would end the whole expression. So they are taken out of the expression, which keeps a call with their place
//! in a list, and each is evaluated when it is wanted.

use std::sync::Arc;

use cel_interpreter::common::ast::{EntryExpr, Expr, LiteralValue};
use cel_interpreter::{ExecutionError, FunctionContext, IdedExpr, Value};

use super::names::{COALESCE, DEFAULT};

/// What stands in the place of the calls. No expression can spell it.
pub const FUNCTION: &str = "@fallback";

/// What a call was, with its arguments.
#[derive(Debug)]
pub enum Fallback {
    Default { wanted: IdedExpr, other: IdedExpr },
    Coalesce(Vec<IdedExpr>),
}

/// Takes all calls out of an expression that was checked. Those in arguments of others come before these.
pub fn take_out(expression: &mut IdedExpr, out: &mut Vec<Fallback>) {
    for_each_part(expression, &mut |part| take_out(part, out));
    let Expr::Call(call) = &mut expression.expr else {
        return;
    };
    let args = &mut call.args;
    let fallback = match (call.func_name.as_str(), &mut args[..]) {
        (DEFAULT, [wanted, other]) => Fallback::Default {
            wanted: std::mem::take(wanted),
            other: std::mem::take(other),
        },
        (COALESCE, _) => Fallback::Coalesce(std::mem::take(args)),
        _ => return,
    };
    let place = IdedExpr {
        id: expression.id,
        expr: Expr::Literal(LiteralValue::Int((out.len() as i64).into())),
    };
    call.func_name = FUNCTION.to_owned();
    call.args = vec![place];
    out.push(fallback);
}

fn for_each_part(expression: &mut IdedExpr, see: &mut dyn FnMut(&mut IdedExpr)) {
    match &mut expression.expr {
        Expr::Call(call) => {
            let parts = call.target.as_deref_mut().into_iter();
            parts.chain(&mut call.args).for_each(see);
        }
        Expr::Select(select) => see(&mut select.operand),
        Expr::List(list) => list.elements.iter_mut().for_each(see),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    see(&mut entry.key);
                    see(&mut entry.value);
                }
            }
        }
        Expr::Comprehension(it) => {
            see(&mut it.iter_range);
            see(&mut it.accu_init);
            see(&mut it.loop_cond);
            see(&mut it.loop_step);
            see(&mut it.result);
        }
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

/// What [`FUNCTION`] does: evaluates the call at the place that is its argument.
pub fn evaluator(
    fallbacks: Arc<[Fallback]>,
) -> impl Fn(&FunctionContext<'_, '_>, i64) -> Result<Value, ExecutionError> {
    move |call, place| {
        let place = usize::try_from(place).ok();
        let fallback = place.and_then(|place| fallbacks.get(place));
        let fallback = fallback.ok_or_else(|| call.error("takes a place in the list"))?;
        fallback.evaluate(&|argument| Value::resolve(argument, call.ptx))
    }
}

impl Fallback {
    fn evaluate(
        &self,
        resolve: &dyn Fn(&IdedExpr) -> Result<Value, ExecutionError>,
    ) -> Result<Value, ExecutionError> {
        match self {
            Self::Default { wanted, other } => match resolve(wanted) {
                Ok(Value::Null)
                | Err(ExecutionError::NoSuchKey(_) | ExecutionError::UndeclaredReference(_)) => {
                    resolve(other)
                }
                result => result,
            },
            Self::Coalesce(arguments) => {
                let (mut has_null, mut last) = (false, None);
                for argument in arguments {
                    match resolve(argument) {
                        Ok(Value::Null) => has_null = true,
                        Ok(value) => return Ok(value),
                        Err(error) => last = Some(error),
                    }
                }
                match last {
                    Some(error) if !has_null => Err(error),
                    _ => Ok(Value::Null),
                }
            }
        }
    }
}
