//! The runbooks as pages: as much of Markdown as they use, which is headings, paragraphs, lists,
//! tables, fenced code, `code`, **bold** and links from one runbook to another.

use super::html::Html;

/// Adds a runbook to a page that is served beside the other runbooks.
pub(super) fn render(page: &mut Html, markdown: &str) {
    let mut writer = Writer { page, open: Block::None, text: String::new() };
    for line in markdown.lines() {
        writer.line(line);
    }
    writer.close();
}

/// The block that the lines so far have left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    Paragraph,
    Bullets,
    Numbers,
    Table,
    /// A code block, in a list item or on its own.
    Code {
        list: List,
    },
}

/// The list that a code block stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    None,
    Bullets,
    Numbers,
}

struct Writer<'a> {
    page: &'a mut Html,
    open: Block,
    /// The running paragraph or list item, lines joined.
    text: String,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        let trimmed = line.trim();
        if let Block::Code { list } = self.open {
            self.code_line(line, trimmed, list);
        } else if trimmed.starts_with("```") {
            self.begin_code();
        } else if trimmed.is_empty() {
            self.close();
        } else if let Some((level, heading)) = heading(line) {
            self.close();
            self.page.raw(if level == 1 { "<h1>" } else { "<h2>" });
            inline(self.page, heading);
            self.page.raw(if level == 1 { "</h1>\n" } else { "</h2>\n" });
        } else if line.starts_with('|') {
            self.row(trimmed);
        } else if let Some(item) = line.strip_prefix("- ") {
            self.item(Block::Bullets, item);
        } else if let Some(item) = numbered(line) {
            self.item(Block::Numbers, item);
        } else {
            if self.open == Block::None || self.open == Block::Table {
                self.close();
                self.page.raw("<p>");
                self.open = Block::Paragraph;
            }
            self.text.push(' ');
            self.text.push_str(trimmed);
        }
    }

    fn begin_code(&mut self) {
        let list = match self.open {
            Block::Bullets => List::Bullets,
            Block::Numbers => List::Numbers,
            _ => List::None,
        };
        if list == List::None {
            self.close();
        } else {
            self.flush();
        }
        self.page.raw("<pre>");
        self.open = Block::Code { list };
    }

    fn code_line(&mut self, line: &str, trimmed: &str, list: List) {
        if trimmed.starts_with("```") {
            self.page.raw("</pre>\n");
            self.open = match list {
                List::None => Block::None,
                List::Bullets => Block::Bullets,
                List::Numbers => Block::Numbers,
            };
        } else {
            self.page.text(line).raw("\n");
        }
    }

    fn item(&mut self, list: Block, item: &str) {
        if self.open == list {
            self.flush();
            self.page.raw("</li>\n<li>");
        } else {
            self.close();
            self.page.raw(if list == Block::Bullets { "<ul>\n<li>" } else { "<ol>\n<li>" });
            self.open = list;
        }
        self.text.push_str(item);
    }

    fn row(&mut self, row: &str) {
        let cells = || row.trim_matches('|').split('|').map(str::trim);
        if self.open != Block::Table {
            self.close();
            self.page.raw("<div class=\"wide\"><table><thead><tr>");
            for cell in cells() {
                self.page.raw("<th>");
                inline(self.page, cell);
                self.page.raw("</th>");
            }
            self.page.raw("</tr></thead><tbody>\n");
            self.open = Block::Table;
        } else if cells().any(|cell| !cell.trim_matches(['-', ':']).is_empty()) {
            self.page.raw("<tr>");
            for cell in cells() {
                self.page.raw("<td>");
                inline(self.page, cell);
                self.page.raw("</td>");
            }
            self.page.raw("</tr>\n");
        }
    }

    /// Writes the running text out.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        inline(self.page, text.trim());
    }

    fn close(&mut self) {
        self.flush();
        self.page.raw(match self.open {
            Block::None => "",
            Block::Paragraph => "</p>\n",
            Block::Bullets => "</li></ul>\n",
            Block::Numbers => "</li></ol>\n",
            Block::Table => "</tbody></table></div>\n",
            Block::Code { .. } => "</pre>\n",
        });
        self.open = Block::None;
    }
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    (level > 0).then_some(())?;
    Some((level, text.strip_prefix(' ')?))
}

fn numbered(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < line.len()).then_some(())?;
    rest.strip_prefix(". ")
}

/// Text with `code`, **bold** and links; a mark without its partner is a character.
fn inline(page: &mut Html, mut text: &str) {
    while let Some(at) = text.find(['`', '*', '[']) {
        let (before, rest) = text.split_at(at);
        page.text(before);
        text = if let Some((code, after)) = between(rest, "`", "`") {
            page.raw("<code>").text(code).raw("</code>");
            after
        } else if let Some((bold, after)) = between(rest, "**", "**") {
            page.raw("<strong>");
            inline(page, bold);
            page.raw("</strong>");
            after
        } else if let Some((label, name, after)) = link(rest) {
            page.raw("<a href=\"").text(name).raw("\">").text(label).raw("</a>");
            after
        } else {
            // All three marks are one byte long.
            let (mark, after) = rest.split_at(1);
            page.text(mark);
            after
        };
    }
    page.text(text);
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(open)?.split_once(close)
}

/// A link to another runbook, whose page has the name without `.md`.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let (label, rest) = between(text, "[", "](")?;
    let (target, after) = rest.split_once(')')?;
    let name = target.strip_suffix(".md")?;
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some((label, name, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(markdown: &str) -> String {
        let mut page = Html::default();
        render(&mut page, markdown);
        page.into_string()
    }

    #[test]
    fn blocks() {
        let text = "# A\n\nOne\ntwo.\n\n- x\n  y\n- z\n\n1. n:\n   ```\n   <c>\n   ```\n2. m\n";
        assert_eq!(
            html(text),
            "<h1>A</h1>\n<p>One two.</p>\n<ul>\n<li>x y</li>\n<li>z</li></ul>\n\
             <ol>\n<li>n:<pre>   &lt;c&gt;\n</pre>\n</li>\n<li>m</li></ol>\n"
        );
    }

    #[test]
    fn tables() {
        assert_eq!(
            html("| a | b |\n|---|---|\n| `1` | 2 |\n\nend"),
            "<div class=\"wide\"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>\n\
             <tr><td><code>1</code></td><td>2</td></tr>\n</tbody></table></div>\n<p>end</p>\n"
        );
    }

    #[test]
    fn marks_in_a_line() {
        assert_eq!(
            html("**Means:** `a*b` [hot_key](hot_key.md), 2 * 3, [x](http://x), a ` b"),
            "<p><strong>Means:</strong> <code>a*b</code> <a href=\"hot_key\">hot_key</a>, 2 * 3, \
             [x](http://x), a ` b</p>\n"
        );
    }

    #[test]
    fn every_runbook_leaves_nothing_open() {
        for (name, text) in crate::shipped::RUNBOOKS {
            let html = html(text);
            for tag in ["p", "ul", "ol", "li", "pre", "table", "code", "strong", "a", "h1", "h2"] {
                let opened = html.matches(&format!("<{tag}>")).count()
                    + html.matches(&format!("<{tag} ")).count();
                assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{name}: {tag}");
            }
            assert!(!html.contains("```"), "{name}");
        }
    }
}
