//! A self-contained HTML file: heading, drawings, tables and the numbers as JSON. It loads nothing and needs no script.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use host::failure::{ErrorKind, Explain, FullDisk};
use host::files::{directory_of, draft_beside, open_regular, write_whole};

/// Start of a report. By default, pgthaw replaces only a file that starts like this.
pub const SIGNATURE: &str = "<!doctype html>\n<!-- pgthaw report -->\n";

/// Colours for light and dark paper, as in `web/src/palette.ts`, whose test compares them.
const COLOURS: [(&str, &str); 6] = [
    ("#004465", "#0086dc"),
    ("#cb2d00", "#ff843a"),
    ("#0f7952", "#27cf95"),
    ("#a44998", "#dd80b2"),
    ("#8d6f00", "#ebcb62"),
    ("#5b29b1", "#be99ff"),
];

/// Line dashes for colour-blind readers; the first is solid.
const DASHES: [&str; 6] = ["none", "7 4", "2 3", "9 3 2 3", "14 4", "4 2 1 2"];

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

/// Escapes `title` and `json`, but not `body`, which is HTML.
pub fn render_document(title: &str, body: &str, json: &str) -> String {
    render_page(title, "style-src 'unsafe-inline'", &render_style(), body, json, "")
}

pub fn render_page(title: &str, policy: &str, style: &str, body: &str, json: &str, script: &str) -> String {
    let (title, json) = (escape_text(title), escape_json(json));
    format!(
        r#"{SIGNATURE}<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; {policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>pgthaw: {title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="pgthaw-data">{json}</script>
{script}</body>
</html>
"#
    )
}

/// Escapes `<`, which JSON contains only in strings; a name with `</script>` would end the script element.
pub fn escape_json(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Unprintable characters become escapes such as `\u{1b}`.
pub fn escape_text(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    escaped.split('\n').map(terminal::printable).collect::<Vec<_>>().join("\n")
}

/// Checks, before minutes of work, that `write_report` will be able to write.
pub fn check_report_place(path: &Path, replaces_anything: bool) -> Result<(), Error> {
    check_replaced(path, replaces_anything)?;
    let failed = |source| Error::Write { path: path.to_owned(), source };
    draft_beside(path).map(drop).map_err(failed)
}

/// Replaces an older report. Replaces another file or a link only with `replaces_anything`, and a device or pipe never.
pub fn write_report(path: &Path, html: &str, replaces_anything: bool) -> Result<(), Error> {
    check_replaced(path, replaces_anything)?;
    write_whole(path, html.as_bytes()).map_err(|source| Error::Write { path: path.to_owned(), source })
}

fn check_replaced(path: &Path, replaces_anything: bool) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let directory = directory_of(path);
    // Fails for a missing directory: it may be mistyped.
    std::fs::metadata(directory).map_err(failed)?;
    match std::fs::symlink_metadata(path).map(|facts| facts.file_type()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(kind) if kind.is_file() || kind.is_symlink() => {
            let is_report = kind.is_file() && is_report(path).map_err(failed)?;
            if !is_report && !replaces_anything {
                return Err(Error::Occupied(path.to_owned()));
            }
            Ok(())
        }
        // `open_regular` fails for a directory, pipe or device, and names it.
        other => Err(failed(other.and_then(|_| open_regular(path)).err().unwrap_or(io::ErrorKind::Other.into()))),
    }
}

fn is_report(path: &Path) -> std::io::Result<bool> {
    let mut beginning = vec![0; SIGNATURE.len()];
    match open_regular(path)?.read_exact(&mut beginning) {
        Ok(()) => Ok(beginning == SIGNATURE.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot encode the report: {0}")]
    Encode(#[from] serde_json::Error),
    #[error("{} exists and is not a pgthaw report", .0.display())]
    Occupied(PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Occupied(_) => ErrorKind::Usage,
            Error::Write { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
            Error::Encode(_) | Error::Write { .. } => ErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Occupied(_) => Some("use another file (-o, --html); `report --force` replaces this one".into()),
            Error::Write { .. } => {
                Some("use a file in an existing directory that you can write to (-o, --html)".into())
            }
            Error::Encode(_) => None,
        }
    }

    fn full_disk(&self) -> Option<FullDisk> {
        let Error::Write { path, source } = self else { return None };
        FullDisk::of_file(source, path, Some("-o, --html"))
    }
}

#[cfg(test)]
mod page_tests {
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

#[cfg(test)]
mod file_tests {
    use super::*;

    #[test]
    fn replaces_a_report_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        write_report(&path, &format!("{SIGNATURE}one"), false).unwrap();
        write_report(&path, &format!("{SIGNATURE}two"), false).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("two"));

        std::fs::write(&path, "my letters").unwrap();
        assert!(matches!(write_report(&path, SIGNATURE, false), Err(Error::Occupied(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my letters");
        write_report(&path, SIGNATURE, true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), SIGNATURE);
    }

    #[test]
    fn a_link_is_replaced_when_that_is_said_and_a_pipe_never() {
        let directory = tempfile::tempdir().unwrap();
        let [letters, link, pipe] = ["letters", "link", "pipe"].map(|name| directory.path().join(name));
        std::fs::write(&letters, SIGNATURE).unwrap();
        std::os::unix::fs::symlink("letters", &link).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(matches!(write_report(&link, SIGNATURE, false), Err(Error::Occupied(_))));
        write_report(&link, &format!("{SIGNATURE}new"), true).unwrap();
        assert_eq!(std::fs::read_to_string(&letters).unwrap(), SIGNATURE, "it was not written through");
        for other in [&*pipe, directory.path(), Path::new("/dev/null")] {
            let told = write_report(other, SIGNATURE, true).unwrap_err().to_string();
            assert!(told.contains("not a regular file"), "{told}");
        }
    }

    #[test]
    fn the_place_is_looked_at_without_a_report() {
        let directory = tempfile::tempdir().unwrap();
        let [report, letters, missing] =
            ["report.html", "letters", "missing/a.html"].map(|it| directory.path().join(it));
        std::fs::write(&letters, "my letters").unwrap();
        check_report_place(&report, false).unwrap();
        assert!(matches!(check_report_place(&letters, false), Err(Error::Occupied(_))));
        for nowhere in [&*missing, Path::new("/proc/report.html")] {
            assert!(matches!(check_report_place(nowhere, false), Err(Error::Write { .. })));
        }
        assert_eq!(directory.path().read_dir().unwrap().count(), 1, "the letters");
    }

    #[test]
    fn leaves_nothing_behind_when_it_cannot() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing/report.html");
        assert!(matches!(write_report(&missing, SIGNATURE, false), Err(Error::Write { .. })));
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }
}
