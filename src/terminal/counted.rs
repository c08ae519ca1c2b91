//! Numbers with their words.

/// `1 relation`, `2 relations`: the word gets an s for anything but one.
pub fn counted(number: usize, word: &str) -> String {
    match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "relation")), ["0 relations", "1 relation", "2 relations"]);
    }
}
