//! Names within commands that a hint tells the user to run.

use crate::units::is_treacherous;

/// Quotes a text as one word of a shell. The server's names never have the NUL that cannot be quoted. In a text that a
/// terminal would obey, or with a backtick, which ends a command in a sentence, each byte but the plainest becomes its octal number, which bash, zsh and ksh read within `$'…'`.
pub fn quote_argument(text: &str) -> String {
    if !text.contains(|one| one == '`' || is_treacherous(one)) {
        return shlex::try_quote(text).map(String::from).unwrap_or_default();
    }
    let mut quoted = String::from("$'");
    for byte in text.bytes().filter(|byte| *byte != 0) {
        match byte {
            b'`' | b'\'' | b'\\' | ..b' ' | 0x7f.. => quoted.push_str(&format!("\\{byte:03o}")),
            plain => quoted.push(char::from(plain)),
        }
    }
    quoted + "'"
}
