//! The page: the front end of `web/`, and the data that it draws.

use command::document::{SIGNATURE, escape_json, escape_text};

const SCRIPT: &str = include_str!("../../../../web/dist/report.js");
const STYLE: &str = include_str!("../../../../web/dist/report.css");

/// SHA-256 of `SCRIPT` in base64: the one script that the page's security policy lets run.
const SCRIPT_SHA256: &str = include_str!("../../../../web/dist/report.js.sha256");

/// How a page comes by its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// It holds them, and asks nobody for anything.
    Alone,
    /// It has others beside it, and asks where it came from.
    Served,
}

/// The front end with its data, which is JSON. The title stays text whatever it is.
pub(super) fn render_page(kind: PageKind, title: &str, json: &str) -> String {
    let (title, json) = (escape_text(title), escape_json(json));
    format!(
        r#"{SIGNATURE}<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>pgthaw: {title}</title>
<style>{STYLE}</style>
</head>
<body>
<main id="page">
<h1>{title}</h1>
<noscript><p>The curves and the table are drawn by a script in this file. The numbers are in its source, as JSON.</p></noscript>
</main>
<script type="application/json" id="pgthaw-data">{json}</script>
<script>{SCRIPT}</script>
</body>
</html>
"#,
        policy = security_policy(kind),
    )
}

/// Nothing from anywhere, the one script, and styles within the page, which the chart library sets on its elements. A
/// served page may ask its own server.
fn security_policy(kind: PageKind) -> String {
    let connect = match kind {
        PageKind::Alone => "",
        PageKind::Served => "connect-src 'self'; ",
    };
    format!(
        "default-src 'none'; {connect}script-src 'sha256-{SCRIPT_SHA256}'; style-src 'unsafe-inline'; img-src data:; \
         base-uri 'none'; form-action 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_end_can_stand_inside_the_page() {
        assert!(!SCRIPT.to_lowercase().contains("</script"));
        assert!(!SCRIPT.contains("<!--"));
        assert!(!STYLE.to_lowercase().contains("</style"));
    }
}
