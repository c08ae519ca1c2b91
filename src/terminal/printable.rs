//! Names as a terminal may safely show them. A name can hold any character, and a snapshot's come from anybody.

use std::borrow::Cow;

use console::measure_text_width;

/// The text with every character that could move the cursor, change colours or turn the writing around shown as an
/// escape such as `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_treacherous) {
        return Cow::Borrowed(text);
    }
    let show = |character: char| match is_treacherous(character) {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    Cow::Owned(text.chars().map(show).collect())
}

/// Control characters, and those that are invisible or turn the direction of writing.
fn is_treacherous(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Cuts the middle out of a text that is wider than `width` cells.
pub fn shorten_middle(text: &str, width: usize, mark: &str) -> String {
    if measure_text_width(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(measure_text_width(mark));
    let tail_width = room / 2;
    let head = take_width(text.chars(), room - tail_width);
    let tail: String = take_width(text.chars().rev(), tail_width).chars().rev().collect();
    format!("{head}{mark}{tail}")
}

/// As many characters as fit into `width` cells.
fn take_width(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut taken = String::new();
    let mut used = 0;
    for character in characters {
        used += measure_text_width(character.encode_utf8(&mut [0; 4]));
        if used > width {
            break;
        }
        taken.push(character);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_harmless_stays() {
        assert_eq!(printable("Tisch \"表é\" 🙂"), "Tisch \"表é\" 🙂");
    }

    #[test]
    fn what_moves_the_cursor_is_escaped() {
        assert_eq!(printable("a\x1b[2Jb\n\u{202e}\u{9b}"), "a\\u{1b}[2Jb\\n\\u{202e}\\u{9b}");
    }

    #[test]
    fn the_middle_goes_first() {
        assert_eq!(shorten_middle("public.orders", 13, "…"), "public.orders");
        assert_eq!(shorten_middle("public.orders", 8, "…"), "publ…ers");
        assert_eq!(shorten_middle("表表表表表", 7, "…"), "表…表");
        assert_eq!(shorten_middle("abc", 1, "…"), "…");
    }
}
