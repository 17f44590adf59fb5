//! The filter RequestMirror: who gets copies, and of how many requests.

use std::num::NonZeroU32;

use super::backend_ref::read_whole;
use super::reader::Cursor;
use super::resources::MirrorRef;
use crate::route::Fraction;

const HUNDRED: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

pub fn read_mirror<'a>(at: &Cursor<'a>, namespace: &str) -> Option<MirrorRef<'a>> {
    let mut object = at.object()?;
    let backend = object.required("backendRef");
    let percent = object.optional("percent");
    let fraction = object.optional("fraction");
    object.finish();
    let backend = backend.and_then(|backend| read_whole(&backend, namespace));
    let fraction = match (percent, fraction) {
        (Some(_), Some(fraction)) => {
            fraction.error("stands beside `percent`, which says the same; leave one out");
            None
        }
        (Some(percent), None) => Fraction::new(percent.whole(0..=100)?, HUNDRED),
        (None, Some(fraction)) => read_fraction(&fraction),
        (None, None) => Some(Fraction::ALL),
    };
    Some(MirrorRef {
        backend: backend?,
        fraction: fraction?,
    })
}

fn read_fraction(at: &Cursor<'_>) -> Option<Fraction> {
    const MOST: i128 = i32::MAX as i128;
    let mut object = at.object()?;
    let numerator = object.required("numerator");
    let denominator = object.optional("denominator");
    object.finish();
    let numerator = numerator?.whole(0..=MOST)?;
    let denominator = match denominator {
        Some(denominator) => NonZeroU32::new(denominator.whole(1..=MOST)?)?,
        None => HUNDRED,
    };
    let fraction = Fraction::new(numerator, denominator);
    if fraction.is_none() {
        at.error(format!(
            "{numerator} of {denominator} is more than all; make the numerator smaller"
        ));
    }
    fraction
}
