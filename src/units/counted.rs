//! Numbers with their words.

use std::fmt::Display;

/// `1 relation`, `2 relations`: the word gets its plural for anything but one.
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, word: &str) -> String {
    if number == N::from(1) {
        return format!("1 {word}");
    }
    let ending = if ["ch", "s", "x"].iter().any(|end| word.ends_with(end)) { "es" } else { "s" };
    format!("{number} {word}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "relation")), ["0 relations", "1 relation", "2 relations"]);
        assert_eq!([1_u64, 3].map(|number| counted(number, "branch")), ["1 branch", "3 branches"]);
    }
}
