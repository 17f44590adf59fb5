//! Rust source without what is not code: comments, strings and characters become blanks, so that words in them are not
//! taken for code. Lines and columns stay where they are.

/// The text with comments and literals blanked.
pub fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_word = false;
    while let Some(next) = rest.chars().next() {
        // `r"` begins a raw string, the `r"` of `for"` would not: prefixes count only where a word begins.
        let literal = literal_length(rest).filter(|_| !in_word || !next.is_alphanumeric());
        let (taken, kept) = match literal {
            Some(length) => (length, false),
            None => (next.len_utf8(), true),
        };
        let (piece, tail) = rest.split_at(taken);
        if kept {
            out.push(next);
        } else {
            let blanks = piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' });
            out.extend(blanks);
        }
        in_word = kept && (next.is_alphanumeric() || next == '_');
        rest = tail;
    }
    out
}

/// Bytes of the comment or literal that `text` starts with, if it does.
fn literal_length(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    let unprefixed = text.trim_start_matches(['b', 'c']);
    let prefix = text.len() - unprefixed.len();
    if prefix > 1 {
        return None;
    }
    if unprefixed.starts_with('"') {
        return Some(prefix + quoted(unprefixed, '"'));
    }
    if unprefixed.starts_with('r') {
        return raw_string(unprefixed).map(|length| prefix + length);
    }
    is_character(unprefixed).then(|| prefix + quoted(unprefixed, '\''))
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Length of a literal in quotes with escapes, both quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// Length of a raw string, of which `text` starts with the `r`.
fn raw_string(text: &str) -> Option<usize> {
    let after_r = &text[1..];
    let hashes = after_r.len() - after_r.trim_start_matches('#').len();
    let inside = after_r[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - inside.len();
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(start + length)
}

/// Whether a quote begins a character and not a lifetime or label.
fn is_character(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next() == Some('\'')
        && match chars.next() {
            Some('\\') => true,
            Some(_) => chars.next() == Some('\''),
            None => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        let rows = [
            ("a // b", "a"),
            ("a //! b\nc", "a c"),
            ("a /* b /* c */ d */ e", "a e"),
            ("a /* b\nc */ d", "a d"),
            (r#"a "b \" c" d"#, "a d"),
            (r##"a r"b\" c"##, "a c"),
            ("a r#\"b\" c\"# d", "a d"),
            ("a b\"c\" br\"d\" c\"e\" f", "a f"),
            ("for\"a\" x", "for x"),
            ("a 'b' '\\'' b'\\n' c", "a c"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("'a: loop { break 'a }", "'a: loop { break 'a }"),
            ("r#type crab", "r#type crab"),
            ("a \"b", "a"),
            ("\"\u{fc}\" a", "a"),
        ];
        for (text, expected) in rows {
            let code = blank(text);
            let words: Vec<&str> = code.split_whitespace().collect();
            assert_eq!(words.join(" "), expected, "{text}");
            // Everything stays where it was.
            assert_eq!(code.chars().count(), text.chars().count(), "{text}");
            assert_eq!(code.find('\n'), text.find('\n'), "{text}");
        }
    }
}
