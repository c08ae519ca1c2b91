//! One HTML file that asks the network for nothing: without any script it has a heading, drawings, tables, and the numbers as JSON.

mod error;
mod file;

pub use error::Error;
pub use file::{check_report_place, write_report};

use host::units::is_treacherous;

/// How a report begins; another file is not replaced by one.
pub const SIGNATURE: &str = "<!doctype html>\n<!-- pgthaw report -->\n";

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

/// JSON has `<` only within strings, where its escape means the same: no name can end the script element.
pub fn escape_json(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// A name may hold anything: what no page shows as it is becomes an escape such as `\u{1b}`, as in a terminal.
pub fn escape_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' => escaped.push(character),
            character if is_treacherous(character) => escaped.extend(character.escape_default()),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_the_script_or_becomes_markup() {
        let hostile = r#"</script><img src=x onerror="alert(1)"> & "#;
        let json = escape_json(&serde_json::to_string(hostile).unwrap());
        assert!(!json.contains('<'));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
        assert_eq!(escape_text("<b>\"&\"</b>"), "&lt;b&gt;&quot;&amp;&quot;&lt;/b&gt;");
        assert_eq!(escape_text("a\u{1b}[31m\u{7}\u{202e}b\nc"), "a\\u{1b}[31m\\u{7}\\u{202e}b\nc");
    }
}
