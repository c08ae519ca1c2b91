//! The page of an address that nothing has: what there is instead.

use std::fmt::Write as _;

use super::Error;
use super::document::render_document;
use super::page::{PageKind, escape_text};

/// Something that can be opened.
#[derive(Clone, Debug)]
pub struct Link {
    /// A path of this server.
    pub address: String,
    pub title: String,
    pub note: String,
}

/// Says what is not there, and leads to what is. Whatever was asked for, it stays text.
pub fn render_missing_page(message: &str, links: Vec<Link>) -> Result<String, Error> {
    let json = serde_json::to_string(&serde_json::json!({ "format": 1, "error": { "message": message } }))?;
    let mut body = format!("<h1>Nothing is here</h1><p>pgthaw answers: {}.</p>", escape_text(message));
    body += if links.is_empty() { "<p>The store is empty.</p>" } else { "<h2>The newest that is kept</h2><ul>" };
    for Link { address, title, note } in &links {
        let (address, title, note) = (escape_text(address), escape_text(title), escape_text(note));
        // Writing into a string does not fail.
        let _ = write!(body, r#"<li><a href="{address}">{title}</a> <span class="soft">{note}</span></li>"#);
    }
    if !links.is_empty() {
        body += "</ul>";
    }
    Ok(render_document(PageKind::Served, "nothing is here", &body, &json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_stays_text() {
        let link = Link { address: "/runs/a".into(), title: "<b>".into(), note: String::new() };
        let html = render_missing_page("there is no page /<script>alert(1)</script>", vec![link]).unwrap();
        assert_eq!(html.matches("<script").count(), 1, "the data alone: {html}");
        assert!(
            html.contains(r#"<a href="/runs/a">&lt;b&gt;</a>"#) && html.contains(r#"<a href="/#/live">"#),
            "{html}"
        );
    }
}
