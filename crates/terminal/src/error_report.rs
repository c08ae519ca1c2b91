//! A failure, for people and for programs.

use serde_json::json;

use host::failure::ErrorKind;

/// The text of a failure: what happened and why on the first lines, what to do below. With `as_json` one object with
/// the stable fields `error`, `kind` and `hint`.
pub fn render_error(message: &str, kind: ErrorKind, hint: Option<&str>, as_json: bool) -> String {
    if as_json {
        return json!({ "error": message, "kind": kind.name(), "hint": hint }).to_string();
    }
    match hint {
        Some(hint) => format!("pgthaw: {message}\n  hint: {hint}"),
        None => format!("pgthaw: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_and_what_to_do() {
        let text = render_error("no server", ErrorKind::Failed, Some("start it"), false);
        assert_eq!(text, "pgthaw: no server\n  hint: start it");
        let json = render_error("no server", ErrorKind::Failed, None, true);
        assert_eq!(json, r#"{"error":"no server","hint":null,"kind":"failed"}"#);
    }
}
