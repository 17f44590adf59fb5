//! Values that are compared, or matched by a regular expression.

use regex::bytes::{Regex, RegexBuilder};

/// Memory one compiled expression may take.
const MAX_COMPILED: usize = 1 << 20;

/// What a value must be.
#[derive(Clone, Debug)]
pub enum Pattern {
    Exact(Box<str>),
    /// Holds for the whole value.
    Regex {
        text: Box<str>,
        compiled: Regex,
    },
}

/// Why a text is no regular expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("is too large a regular expression")]
    TooLarge,
    #[error("is not a regular expression: {0}")]
    Syntax(String),
}

impl Pattern {
    pub fn exact(text: &str) -> Self {
        Self::Exact(text.into())
    }

    pub fn regex(text: &str) -> Result<Self, PatternError> {
        // Alone first: what is wrong is told of the text as written.
        compile(text)?;
        Ok(Self::Regex {
            text: text.into(),
            compiled: compile(&format!("^(?:{text})$"))?,
        })
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Exact(text) | Self::Regex { text, .. } => text,
        }
    }

    pub(super) fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => value == text.as_bytes(),
            Self::Regex { compiled, .. } => compiled.is_match(value),
        }
    }
}

/// Two are equal that were written alike.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.as_str() == other.as_str()
    }
}

fn compile(text: &str) -> Result<Regex, PatternError> {
    RegexBuilder::new(text)
        .size_limit(MAX_COMPILED)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
            // The parser draws what it means over several lines; the last one says it.
            error => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                PatternError::Syntax(last.trim_start_matches("error: ").to_owned())
            }
        })
}
