//! HTML that cannot forget to escape: markup is `'static`, everything else is text.

use std::fmt::{Display, Write};

/// A piece of a page.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Adds markup of our own, which no input can be.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    /// Adds text, escaped for an element's content and for a quoted attribute alike.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Html {
        // Writing to a string does not fail.
        let _ = write!(Escaped(&mut self.0), "{text}");
        self
    }

    /// Adds a name that came from outside, as [`Html::text`] does. Whatever way it is written in, and
    /// whatever it says about that, stays within it.
    pub(super) fn name(&mut self, name: impl Display) -> &mut Html {
        self.raw("<bdi>").text(name).raw("</bdi>")
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // A parser drops or replaces it; people should see that something is there.
                '\0' => self.0.push('\u{fffd}'),
                _ => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_can_open_neither_an_element_nor_an_attribute() {
        let mut html = Html::default();
        html.raw("<b title=\"").text("\"><script>'&\0").raw("\">").text(1.5).raw("</b>");
        assert_eq!(
            html.into_string(),
            "<b title=\"&quot;&gt;&lt;script&gt;&#39;&amp;\u{fffd}\">1.5</b>"
        );
    }
}
