//! Safe display of names, which may contain any character: anybody may have written a snapshot.

use std::borrow::Cow;
use std::collections::BTreeMap;

use console::measure_text_width;

use host::units::is_treacherous;

/// Escapes characters that move the cursor, change colours or reverse text.
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

/// Escapes control characters before printing, except line feeds and colours.
pub fn obeyed_by_no_terminal(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_treacherous) {
        let (before, behind) = rest.split_at(at);
        let kept = if behind.starts_with('\n') { 1 } else { colour_length(behind) };
        let length = if kept > 0 { kept } else { behind.chars().next().map_or(0, char::len_utf8) };
        shown.push_str(before);
        match kept {
            0 => shown.push_str(&printable(&behind[..length])),
            _ => shown.push_str(&behind[..length]),
        }
        rest = &behind[length..];
    }
    if shown.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(shown + rest) }
}

/// Length of a leading `ESC [ … m`; 0 if colours are off.
fn colour_length(text: &str) -> usize {
    let has_colours = console::colors_enabled() || console::colors_enabled_stderr();
    let Some(figures) = text.strip_prefix("\x1b[").filter(|_| has_colours) else { return 0 };
    let end = figures.find(|c: char| !c.is_ascii_digit() && c != ';').filter(|end| figures[*end..].starts_with('m'));
    end.map_or(0, |end| "\x1b[".len() + end + 1)
}

/// Raw line feeds, which are only outside of strings, stay.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let is_raw = |character: char| is_treacherous(character) && character != '\n';
    if !json.contains(is_raw) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::new();
    for character in json.chars() {
        match is_raw(character) {
            // JSON escapes characters above 16 bits as surrogate pairs.
            true => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| shown += &format!("\\u{unit:04x}")),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

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

/// With fewer cells, `shorten_apart` shows similar texts from their start.
const LEAST_TO_DIFFER_IN: usize = 8;

/// As `shorten_middle`; texts that would look alike are shown from where they differ.
pub fn shorten_apart(texts: &[String], width: usize, mark: &str) -> Vec<String> {
    let mut shown: Vec<String> = texts.iter().map(|text| shorten_middle(text, width, mark)).collect();
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, text) in shown.iter().enumerate() {
        alike.entry(text.clone()).or_default().push(place);
    }
    let room = width.saturating_sub(measure_text_width(mark));
    if room < LEAST_TO_DIFFER_IN {
        return shown;
    }
    for places in alike.into_values().filter(|places| places.len() > 1) {
        for &place in &places {
            let text = &texts[place];
            let others = places.iter().map(|other| &texts[*other]).filter(|other| *other != text);
            let Some(shared) = others.map(|other| shared_bytes(text, other)).max() else { continue };
            // Starts at the word that differs.
            let mut before = text[..shared].char_indices().rev();
            let Some((at, character)) = before.find(|(_, character)| !character.is_alphanumeric()) else { continue };
            shown[place] = format!("{mark}{}", shorten_middle(&text[at + character.len_utf8()..], room, mark));
        }
    }
    shown
}

fn shared_bytes(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
}

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
    fn what_was_forgotten_is_escaped_in_the_end() {
        assert_eq!(obeyed_by_no_terminal("a\nb"), "a\nb");
        assert_eq!(obeyed_by_no_terminal("a\x1b[2Jb\n\u{202e}\r"), "a\\u{1b}[2Jb\n\\u{202e}\\r");
        let json = serde_json::to_string_pretty(&["\x1b\u{9b}\u{202e}é", "\u{7f}"]).unwrap();
        let shown = printable_json(&json);
        assert!(!shown.contains(|c: char| is_treacherous(c) && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), ["\x1b\u{9b}\u{202e}é", "\u{7f}"]);
    }

    #[test]
    fn the_middle_goes_first() {
        assert_eq!(shorten_middle("public.orders", 13, "…"), "public.orders");
        assert_eq!(shorten_middle("public.orders", 8, "…"), "publ…ers");
        assert_eq!(shorten_middle("表表表表表", 7, "…"), "表…表");
        assert_eq!(shorten_middle("abc", 1, "…"), "…");
    }

    #[test]
    fn what_would_look_alike_begins_where_it_differs() {
        let of = |table: &str| format!("UPDATE public.pgbench_{table} SET balance = balance + ?::processor::running");
        let names = [of("accounts"), of("tellers"), "SELECT ?::processor::ready".to_owned(), of("tellers")];
        assert_eq!(
            shorten_apart(&names, 34, "…"),
            [
                "…accounts SET bal…ocessor::running",
                "…tellers SET bala…ocessor::running",
                "SELECT ?::processor::ready",
                "…tellers SET bala…ocessor::running"
            ]
        );
        assert_eq!(shorten_apart(&["aaa:éb".into(), "aaa:éc".into()], 1, "…"), ["…", "…"], "no room to differ in");
    }
}
