//! Links of Markdown files to other files of the tree: what they point at must exist.

use super::{File, Problem};

/// `exists` answers for paths from the top.
pub fn problems(file: &File, exists: impl Fn(&str) -> bool) -> Vec<Problem> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let mut in_code_block = false;
    for (line, text) in (1..).zip(file.text.lines()) {
        if text.trim_start().starts_with("```") {
            in_code_block = !in_code_block;
        } else if !in_code_block {
            let broken = targets(text).filter(|target| {
                let path = target.split('#').next().unwrap_or_default();
                !path.is_empty() && !resolve(&file.path, path).is_some_and(|path| exists(&path))
            });
            problems.extend(
                broken.map(|target| {
                    file.problem(line, format!("the link to {target} leads nowhere"))
                }),
            );
        }
    }
    problems
}

/// What the links of a line point at, other sites aside.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let parts = line.split('`').step_by(2); // Every second part is code.
    parts
        .flat_map(|part| part.split("](").skip(1))
        .filter_map(|rest| rest.split([')', ' ']).next())
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// The path from the top that `target` means in the file at `from`, if it stays within the tree.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let file = File {
            path: "docs/a.md".to_owned(),
            text: text.to_owned(),
        };
        let tree = ["README.md", "docs", "docs/b.md", "docs/c/d.md"];
        let problems = problems(&file, |path| tree.contains(&path));
        problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn links_lead_to_files_of_the_tree() {
        let text = "[b](b.md) and [top](../README.md#usage), ![d](./c/d.md \"title\")\n\
            [site](https://example.org/x) [here](#below) [mail](mailto:a@b) `[x](y)`\n\
            ```\n[not](checked)\n```\n";
        assert_eq!(of(text), [""; 0]);
    }

    #[test]
    fn broken_links_are_named() {
        assert_eq!(
            of("\n[b](b.md), [c](c.md#x)\n[out](../../etc)\n"),
            [
                "docs/a.md:2: the link to c.md#x leads nowhere",
                "docs/a.md:3: the link to ../../etc leads nowhere",
            ]
        );
    }
}
