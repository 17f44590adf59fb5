//! `tidy`: rules about the tree that no compiler checks. Every problem is printed as `file:line: what is wrong`; all are
//! found in one run. It reads the working tree as it lies there, without `target` and `.git`.

mod code;
mod imports;
mod links;
mod source;
mod tree;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::repository;

/// One thing to mend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    path: String,
    /// From 1.
    line: usize,
    message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A text file of the tree.
struct File {
    /// From the top, with `/` between its parts.
    path: String,
    text: String,
}

impl File {
    fn problem(&self, line: usize, message: impl Into<String>) -> Problem {
        Problem {
            path: self.path.clone(),
            line,
            message: message.into(),
        }
    }
}

/// Prints every problem of the tree; an error if there is one.
pub fn tidy() -> Result<()> {
    let mut problems = tree::problems(&names(repository())?);
    let mut files = Vec::new();
    collect(repository(), &mut files)?;
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else {
            continue; // Not text.
        };
        let file = File {
            path: relative(&path),
            text,
        };
        problems.extend(source::problems(&file));
        problems.extend(imports::problems(&file));
        problems.extend(links::problems(&file, |target| {
            repository().join(target).exists()
        }));
    }
    problems.sort();
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        1 => bail!("the tree has one problem"),
        count => bail!("the tree has {count} problems"),
    }
}

/// All files below `directory` that are ours.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for name in names(directory)? {
        let path = directory.join(&name);
        if path.is_symlink() || name == ".git" || name == "target" {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if name != "Cargo.lock" {
            files.push(path);
        }
    }
    Ok(())
}

fn names(directory: &Path) -> Result<Vec<String>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

fn relative(path: &Path) -> String {
    let below = path.strip_prefix(repository()).unwrap_or(path);
    let parts = below.iter().map(|part| part.to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}
