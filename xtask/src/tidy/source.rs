//! Rules about the text of a file: its size, its whitespace, words that must not stay, and where unsafe code may be.

use super::code::blank;
use super::{File, Problem};

const MAX_LINES: usize = 600;

/// Folders that may hold unsafe code. The kernel programs' tests and the harness speak to the kernel too.
const UNSAFE: [&str; 6] = [
    "common/src/",
    "ebpf/src/",
    "proxy/src/runtime/dataplane/",
    "proxy/src/runtime/ring/",
    "proxy/tests/kernel_programs/",
    "tests/src/",
];

/// Code that must not be committed, and what to do instead.
const FORBIDDEN: [(&str, &str); 6] = [
    ("#[allow(", "use #[expect(.., reason = \"..\")], narrowly"),
    ("#![allow(", "use #![expect(.., reason = \"..\")], narrowly"),
    (
        "#[ignore",
        "a test that cannot run says what it needed instead",
    ),
    ("todo!", "finish it or leave it out"),
    ("unimplemented!", "finish it or leave it out"),
    ("dbg!", "remove it"),
];

pub fn problems(file: &File) -> Vec<Problem> {
    let mut problems = whitespace(file);
    if file.path.ends_with(".rs") {
        problems.extend(size(file));
        problems.extend(opening(file));
        problems.extend(words(file));
    }
    problems
}

fn whitespace(file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (line, text) in (1..).zip(file.text.split('\n')) {
        if text.contains('\t') {
            problems.push(file.problem(line, "a tab: use spaces, or \\t in a literal"));
        }
        if text.ends_with([' ', '\t', '\r']) {
            problems.push(file.problem(line, "whitespace at the end of the line"));
        }
    }
    problems
}

fn size(file: &File) -> Option<Problem> {
    let lines = file.text.lines().count();
    let message = format!("{lines} lines: look for the second idea, {MAX_LINES} is the limit");
    (lines > MAX_LINES).then(|| file.problem(lines, message))
}

fn opening(file: &File) -> Option<Problem> {
    let message = "a file opens with a //! comment: what the module is for";
    (!file.text.starts_with("//! ")).then(|| file.problem(1, message))
}

fn words(file: &File) -> Vec<Problem> {
    let may_be_unsafe = UNSAFE.iter().any(|folder| file.path.starts_with(folder));
    let mut problems = Vec::new();
    for (line, code) in (1..).zip(blank(&file.text).lines()) {
        for (word, instead) in FORBIDDEN {
            if holds(code, word) {
                problems.push(file.problem(line, format!("{word} is not allowed: {instead}")));
            }
        }
        // An allow behind a condition is one all the same.
        if code.contains("cfg_attr(") && holds(code, "allow(") {
            problems.push(file.problem(line, "allow( is not allowed: use expect, narrowly"));
        }
        if !may_be_unsafe && holds(code, "unsafe") {
            let folders = UNSAFE.join(", ");
            problems.push(file.problem(line, format!("unsafe code belongs in {folders}")));
        }
    }
    problems
}

/// Whether `code` holds `word`, not as a part of a longer name.
fn holds(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let joins_before = word.starts_with(is_part) && before.is_some_and(is_part);
        let joins_after = word.ends_with(is_part) && after.is_some_and(is_part);
        !joins_before && !joins_after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> Vec<String> {
        let file = File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        problems(&file).iter().map(Problem::to_string).collect()
    }

    /// Where problems are found, in a source file with an opening comment as line 1.
    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        let file = File {
            path: path.to_owned(),
            text: format!("//! What it is for.\n{text}"),
        };
        problems(&file).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn whitespace_is_spaces_between_words() {
        assert_eq!(of("a.md", "a b\n\n c\n"), [""; 0]);
        assert_eq!(
            of("a.toml", "a\tb\nc \nd\r\n"),
            [
                "a.toml:1: a tab: use spaces, or \\t in a literal",
                "a.toml:2: whitespace at the end of the line",
                "a.toml:3: whitespace at the end of the line",
            ]
        );
    }

    #[test]
    fn six_hundred_lines_are_enough() {
        assert_eq!(lines_of("a.rs", &"\n".repeat(599)), [0; 0]);
        assert_eq!(lines_of("a.rs", &"\n".repeat(600)), [601]);
        assert_eq!(of("a.md", &"\n".repeat(900)), [""; 0]);
    }

    #[test]
    fn files_open_with_what_they_are_for() {
        assert_eq!(lines_of("a.rs", "use b;\n"), [0; 0]);
        for text in ["", "use b;\n", "\n//! Late.\n", "// Not a doc.\n", "//!\n"] {
            assert_eq!(of("a.rs", text).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn unfinished_and_silenced_code_is_found() {
        for code in [
            "#[allow(dead_code)]",
            "#![allow(dead_code)]",
            "#[cfg_attr(test, allow(dead_code))]",
            "#[ignore]",
            "#[ignore = \"slow\"]",
            "todo!()",
            "x = std::todo!(\"later\");",
            "unimplemented!()",
            "dbg!(x)",
        ] {
            assert_eq!(lines_of("a.rs", &format!("\n    {code}\n")), [3], "{code}");
        }
        for code in [
            "// todo!()",
            "let text = \"dbg!(x) #[allow(\";",
            "my_todo!()",
            "#[expect(dead_code, reason = \"allow(\")]",
            "self.allow(x)",
        ] {
            assert_eq!(lines_of("a.rs", code), [0; 0], "{code}");
        }
    }

    #[test]
    fn unsafe_code_stays_in_its_folders() {
        let code = "let x = unsafe { f() };";
        for path in [
            "proxy/src/runtime/ring/a.rs",
            "common/src/a.rs",
            "ebpf/src/a.rs",
        ] {
            assert_eq!(lines_of(path, code), [0; 0], "{path}");
        }
        for path in [
            "proxy/src/runtime/worker.rs",
            "proxy/src/http/a.rs",
            "proxy/src/runtime/ring_like.rs",
            "xtask/src/a.rs",
        ] {
            assert_eq!(lines_of(path, code), [2], "{path}");
        }
        for code in ["// unsafe", "#![forbid(unsafe_code)]", "\"unsafe\""] {
            assert_eq!(lines_of("proxy/src/a.rs", code), [0; 0], "{code}");
        }
    }
}
