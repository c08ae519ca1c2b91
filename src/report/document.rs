//! A page without any script: a heading, drawings, tables, and the numbers as JSON.

use super::page::{SIGNATURE, escape_json, escape_text};

/// Colours that can be told apart in the light and in the dark, also by those who see fewer of them (Okabe and Ito 2008).
pub const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
svg{width:100%;height:auto}svg text{font-size:13px;fill:currentColor}.grid{stroke:currentColor;opacity:.2}\
.line{stroke:currentColor}\
table{border-collapse:collapse;width:100%}th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid #8884}\
th:first-child,td:first-child{text-align:left}.table{overflow-x:auto}.mark{display:inline-block;width:1rem;height:.3rem;\
margin-right:.5rem;vertical-align:middle}pre{overflow-x:auto}";

/// The document. `title` is text; `body` is markup; `json` may hold any names.
pub fn render_document(title: &str, body: &str, json: &str) -> String {
    let (title, json) = (escape_text(title), escape_json(json));
    format!(
        r#"{SIGNATURE}<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>pgthaw: {title}</title>
<style>{STYLE}</style>
</head>
<body>
{body}
<script type="application/json" id="pgthaw-data">{json}</script>
</body>
</html>
"#
    )
}
