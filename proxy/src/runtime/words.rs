//! Errors of the system in words alone: the number behind them says nothing to people.

use std::io;

/// What the error says, without ` (os error 2)`, and beginning like the rest of a sentence.
pub fn of(error: &io::Error) -> String {
    let text = error.to_string();
    let words = match text.rfind(" (os error ") {
        Some(number) => &text[..number],
        None => &text,
    };
    let mut characters = words.chars();
    match characters.next() {
        // An abbreviation keeps its capitals.
        Some(first) if characters.clone().next().is_some_and(char::is_lowercase) => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_left_out() {
        let missing = io::Error::from_raw_os_error(2);
        assert_eq!(of(&missing), "no such file or directory");
        let own = io::Error::other("TLS is missing");
        assert_eq!(of(&own), "TLS is missing");
    }
}
