//! What lies at the top of the repository. Dotfiles are free; everything else is agreed on.

use super::Problem;

const TOP: [&str; 10] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "common",
    "docs",
    "ebpf",
    "proxy",
    "tests",
    "xtask",
];

/// `names` are the entries of the top folder.
pub fn problems(names: &[String]) -> Vec<Problem> {
    let is_visible = |name: &str| !name.starts_with('.') && name != "target";
    let stray = names.iter().map(String::as_str);
    let stray = stray.filter(|name| is_visible(name) && !TOP.contains(name));
    let stray = stray.map(|name| (name, "does not belong at the top"));
    let missing = TOP.into_iter();
    let missing = missing.filter(|top| !names.iter().any(|name| name == top));
    let missing = missing.map(|name| (name, "is missing"));
    stray
        .chain(missing)
        .map(|(name, what)| Problem {
            path: name.to_owned(),
            line: 1,
            message: what.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        problems(&names).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn the_top_holds_what_was_agreed_dotfiles_and_builds() {
        let mut names = TOP.to_vec();
        assert_eq!(of(&names), [""; 0]);
        names.extend([".git", ".rustfmt.toml", "target"]);
        assert_eq!(of(&names), [""; 0]);
    }

    #[test]
    fn strays_and_gaps_are_named() {
        let mut names = TOP.to_vec();
        names.retain(|name| *name != "LICENSE");
        names.push("scratch.txt");
        let expected = [
            "scratch.txt:1: does not belong at the top",
            "LICENSE:1: is missing",
        ];
        assert_eq!(of(&names), expected);
    }
}
