//! Connection strings and URIs, and words of a command line that may hold a password.
#![no_main]

use postgres::{RelationPath, hide_password, parse_connection_string, parse_setting_number};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(Some(parameters)) = parse_connection_string(text) {
        let shown = parameters.render_without_password();
        // What is shown can be read again, and says the same but for what is secret.
        let again = parse_connection_string(&shown);
        assert!(shown.is_empty() || again.is_ok(), "{shown:?}");
        let _ = parameters.check();
    }
    let _ = hide_password(text);
    let _ = parse_setting_number(text, None);
    if let Ok(path) = text.parse::<RelationPath>() {
        // Zeros before a number are no other path.
        assert_eq!(path.to_string().parse(), Ok(path));
        assert!(!text.contains(".."));
    }
});
