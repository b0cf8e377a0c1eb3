// SPDX-License-Identifier: MIT OR Apache-2.0
//! One self-contained HTML page: no script, font or picture from elsewhere, and readable without
//! script.

use crate::escape::escape;
use crate::svg::STYLE;
use crate::values::on_a_page;

/// Sorts tables, and makes maps answer.
const SCRIPT: &str = include_str!("page.js");

const PAGE_STYLE: &str = "\
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);\
font:16px/1.55 system-ui,-apple-system,'Segoe UI',sans-serif}\
main{max-width:960px;margin:0 auto;padding:32px 20px 80px}\
h1{font-size:30px;line-height:1.2;margin:0 0 4px}h2{font-size:21px;margin:44px 0 8px}\
h3{font-size:16px;margin:24px 0 6px}p{margin:8px 0}.lead{color:var(--soft);margin:0 0 20px}\
.verdict{border-left:4px solid var(--accent);background:var(--card);padding:14px 18px;\
border-radius:0 8px 8px 0;font-size:17px}.cards{display:grid;gap:12px;margin:18px 0;\
grid-template-columns:repeat(auto-fit,minmax(190px,1fr))}\
.card{background:var(--card);border-radius:8px;padding:12px 14px;overflow-wrap:break-word}\
.card b{display:block;font-size:22px;line-height:1.25}.card span{color:var(--soft);font-size:13px}\
.note{color:var(--soft);font-size:14px}figure{margin:14px 0}figcaption{color:var(--soft);\
font-size:14px;margin-top:4px}.drawn,.scroll{overflow-x:auto}\
summary{cursor:pointer;color:var(--soft);font-size:14px;padding:4px 0}\
svg.fig:focus-visible,a:focus-visible,summary:focus-visible,th:focus-visible{\
outline:2px solid var(--accent);outline-offset:2px}\
.scroll th:focus-visible,.drawn svg:focus-visible{outline-offset:-2px}\
svg.fig{min-width:790px}table{border-collapse:collapse;\
width:100%;font-size:13px;font-variant-numeric:tabular-nums}\
th,td{text-align:left;padding:5px 6px;border-bottom:1px solid var(--rule)}\
th{vertical-align:bottom}td{vertical-align:top}td.num{white-space:nowrap}\
pre{overflow-x:auto;font-size:13px;line-height:1.4;margin:8px 0}\
th{color:var(--soft);font-weight:600}.num{text-align:right}\
code{background:var(--card);padding:1px 5px;border-radius:4px;font-size:90%}\
th.sorts{cursor:pointer}th[aria-sort=descending]::after{content:' ▾'}\
th[aria-sort=ascending]::after{content:' ▴'}\
.tip{position:fixed;z-index:1;max-width:min(360px,90vw);white-space:pre-line;padding:6px 10px;\
font-size:13px;border-radius:6px;background:var(--ink);color:var(--paper);pointer-events:none}\
.spoken{position:absolute;width:1px;height:1px;margin:-1px;overflow:hidden;clip-path:inset(50%)}\
.tools{display:flex;gap:8px;align-items:center;font-size:13px;color:var(--soft);margin:6px 0}\
.tools button{font:inherit;min-width:34px;min-height:30px;border:1px solid var(--rule);\
border-radius:6px;background:var(--card);color:var(--ink)}\
.square:not(:empty){background:var(--card);border-radius:8px;padding:8px 14px;font-size:14px}\
.tools button{flex:none}@media(max-width:600px){td:not(.num){overflow-wrap:break-word;\
min-width:90px}td+td:not(.num){overflow-wrap:anywhere}td.long{min-width:200px}}\
.square ul{margin:4px 0;padding-left:20px}\
svg[data-map],svg[data-at]{cursor:crosshair}\
nav{font-size:14px;margin:0 0 20px}nav a{margin-right:14px}a{color:var(--accent)}\
@media print{body{font-size:12px}main{padding:0}h2{break-after:avoid}\
figure,tr,.verdict,.card{break-inside:avoid}.drawn,.scroll{overflow:visible}\
nav,.tools,.tip,details:not([open]){display:none}.card b{font-size:17px}\
pre{white-space:pre-wrap}td:not(.num),th{overflow-wrap:anywhere;min-width:6ch}\
table{font-size:10px}th,td{padding:3px 4px}td.num{white-space:normal}svg.fig{min-width:0}}";

/// Text of a paragraph: no line breaks between a number and its per cent sign.
fn prose(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%")
}

/// One section of a page.
#[derive(Clone, Debug, Default)]
pub struct Section {
    title: String,
    anchor: String,
    body: String,
}

impl Section {
    /// An empty section; the anchor is what links point to.
    pub fn new(anchor: &str, title: &str) -> Section {
        Section {
            title: title.into(),
            anchor: anchor.into(),
            body: String::new(),
        }
    }

    /// A paragraph of plain text.
    #[must_use]
    pub fn text(self, text: &str) -> Section {
        self.html(&format!("<p>{}</p>\n", prose(text)))
    }

    /// A paragraph in small, soft type.
    #[must_use]
    pub fn note(self, text: &str) -> Section {
        self.html(&format!("<p class='note'>{}</p>\n", prose(text)))
    }

    /// A paragraph that carries the page's answer.
    #[must_use]
    pub fn verdict(self, text: &str) -> Section {
        self.html(&format!("<p class='verdict'>{}</p>\n", prose(text)))
    }

    /// A heading within the section.
    #[must_use]
    pub fn heading(self, text: &str) -> Section {
        self.html(&format!("<h3>{}</h3>\n", escape(text)))
    }

    /// Large numbers with captions.
    #[must_use]
    pub fn cards(self, cards: &[(String, String)]) -> Section {
        let cards: String = cards
            .iter()
            .map(|(number, caption)| {
                let (number, caption) = (escape(number), escape(caption));
                format!("<div class='card'><b>{number}</b><span>{caption}</span></div>\n")
            })
            .collect();
        self.html(&format!("<div class='cards'>\n{cards}</div>\n"))
    }

    /// A figure with its caption; `svg` is markup from this crate.
    #[must_use]
    pub fn figure(self, svg: &str, caption: &str) -> Section {
        let caption = escape(caption);
        let (svg, values) = on_a_page(svg);
        // Where the figure itself is not reached by the keyboard, what scrolls it has to be.
        let reached = svg.contains(" data-at=") || svg.contains(" data-map=");
        let focus = if reached { "" } else { " tabindex='0'" };
        self.html(&format!(
            "<figure>\n<div class='drawn'{focus}>{svg}</div>\
             <figcaption>{caption}</figcaption>\n{values}</figure>\n"
        ))
    }

    /// Markup made by this crate (tables, figures): not escaped.
    #[must_use]
    pub fn html(mut self, markup: &str) -> Section {
        self.body.push_str(markup);
        self
    }
}

/// One self-contained page of HTML.
#[derive(Clone, Debug, Default)]
pub struct Page {
    title: String,
    lead: String,
    sections: Vec<Section>,
}

impl Page {
    /// A page with a title and a line below it.
    pub fn new(title: &str, lead: &str) -> Page {
        Page {
            title: title.into(),
            lead: lead.into(),
            sections: Vec::new(),
        }
    }

    /// Appends a section.
    pub fn push(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// The whole HTML document.
    pub fn to_html(&self) -> String {
        let (title, lead) = (escape(&self.title), escape(&self.lead));
        let links: String = self
            .sections
            .iter()
            .map(|s| {
                format!(
                    "<a href='#{}'>{}</a>\n",
                    escape(&s.anchor),
                    escape(&s.title)
                )
            })
            .collect();
        let body: String = self
            .sections
            .iter()
            .map(|s| {
                let (anchor, title) = (escape(&s.anchor), escape(&s.title));
                format!(
                    "<section id='{anchor}'>\n<h2>{title}</h2>\n{}</section>\n",
                    s.body
                )
            })
            .collect();
        format!(
            "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n\
             <meta name='viewport' content='width=device-width,initial-scale=1'>\n\
             <title>{title}</title>\n<style>{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n<p class='lead'>{lead}</p>\n<nav>\n{links}</nav>\n{body}</main>\n\
             <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_need_nothing_from_elsewhere() {
        let mut page = Page::new("Ample", "a <machine>");
        page.push(
            Section::new("now", "Now")
                .text("x < y")
                .cards(&[("3 %".into(), "c".into())]),
        );
        let html = page.to_html();
        assert!(html.contains("a &lt;machine&gt;") && html.contains("x &lt; y"));
        let outside = [
            "<script ", "src=", "fetch(", "http:", "https:", "<img", "<link", "@import", "url(",
        ];
        assert!(outside.iter().all(|needle| !html.contains(needle)));
    }
}
