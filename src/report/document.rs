//! A page without any script: a heading, drawings, tables, and the numbers as JSON.

use super::page::{SIGNATURE, escape_json, escape_text};

/// Colours of series on light and on dark paper: those of `web/src/palette.ts`, whose test compares them.
const COLOURS: [(&str, &str); 6] = [
    ("#004465", "#0086dc"),
    ("#cb2d00", "#ff843a"),
    ("#0f7952", "#27cf95"),
    ("#a44998", "#dd80b2"),
    ("#8d6f00", "#ebcb62"),
    ("#5b29b1", "#be99ff"),
];

/// Dashes of lines, for those who see fewer colours; the first is solid.
const DASHES: [&str; 6] = ["none", "7 4", "2 3", "9 3 2 3", "14 4", "4 2 1 2"];

/// The class that gives a series its colour, as `color`; and its dashes, to what is drawn with a line.
pub fn class_of(series: usize) -> String {
    format!("series{}", series % COLOURS.len())
}

const STYLE: &str = ":root{color-scheme:light dark;--paper:light-dark(#fbfbf9,#121518);--ink:light-dark(#1b2126,#e9ecee);\
--rule:light-dark(#dfe3e4,#31383e)}\
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:0 auto;padding:0 1rem 3rem;background:var(--paper);\
color:var(--ink);overflow-wrap:anywhere}h1{font-size:1.6rem;line-height:1.25}\
svg{width:100%;height:auto}.drawing{max-width:42rem}svg text{font-size:12px;fill:var(--ink)}\
.grid{stroke:currentColor;opacity:.2}\
.curve{fill:none;stroke:currentColor;stroke-width:2}.mark{width:2rem;height:.6rem;margin-right:.5rem;vertical-align:middle}\
table{border-collapse:collapse;width:100%}th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid var(--rule);\
white-space:nowrap}th:first-child,td:first-child{text-align:left}.table{overflow-x:auto}pre{overflow-x:auto}";

fn render_style() -> String {
    let series = COLOURS.iter().zip(DASHES).enumerate();
    series.fold(STYLE.to_owned(), |style, (place, ((light, dark), dashes))| {
        let class = class_of(place);
        format!("{style}.{class}{{color:light-dark({light},{dark})}}.{class}.curve,.{class} .curve{{stroke-dasharray:{dashes}}}")
    })
}

/// The document. `title` is text; `body` is markup; `json` may hold any names.
pub fn render_document(title: &str, body: &str, json: &str) -> String {
    let (title, json, style) = (escape_text(title), escape_json(json), render_style());
    format!(
        r#"{SIGNATURE}<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>pgthaw: {title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="pgthaw-data">{json}</script>
</body>
</html>
"#
    )
}
