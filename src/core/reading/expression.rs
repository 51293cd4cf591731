//! How one counter is read from a page: series summed, added, subtracted and scaled.
//!
//! ```text
//! expression = term { ( "+" | "-" ) term }
//! term       = [ number "*" ] choice [ ( "*" | "/" ) number ]
//! choice     = selector | "(" selector { "or" selector } [ "or" "0" ] ")"
//! selector   = name [ "{" [ matcher { "," matcher } ] "}" ]
//! matcher    = label ( "=" | "!=" | "=~" | "!~" ) '"' text '"'
//! ```
//!
//! A selector is the sum over all series of that name whose labels fit. A choice is the first of
//! its selectors that the page has: libraries rename their counters. `or 0` says that a series
//! which the page lacks counts nothing; without it the counter is unknown.

use regex_lite::Regex;

use crate::reading::page::Series;

/// The legal form, shown with every error.
const FORM: &str = r#"legal: `name`, `name{label="value",other=~"a|b"}`, joined by `+` or `-`, scaled as `name * 0.001`, `(name or other_name or 0)`"#;

/// A counter's recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    terms: Vec<Term>,
}

/// One addend.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Unit scale and sign; finite and not zero.
    pub factor: f64,
    /// The first that the page has counts.
    pub choices: Vec<Selector>,
    /// Whether the term is zero, rather than unknown, when the page has none of them.
    pub zero_if_absent: bool,
}

/// A series name and what its labels must be.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector {
    /// The series' name as the page writes it.
    pub name: String,
    /// All must hold.
    pub matchers: Vec<Matcher>,
}

/// A condition on one label. An absent label is an empty one, as in PromQL.
#[derive(Debug, Clone, PartialEq)]
pub struct Matcher {
    /// The label's name.
    pub label: String,
    /// What its value must be.
    pub test: Test,
}

/// What a label's value must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// This text.
    Is(String),
    /// Any other text.
    IsNot(String),
    /// A text that the pattern matches as a whole.
    Like(Pattern),
    /// A text that it does not.
    NotLike(Pattern),
}

/// A regular expression over a whole label value.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Matcher {
    /// Whether a label value, empty where the series has no such label, fits.
    pub fn fits(&self, value: &str) -> bool {
        match &self.test {
            Test::Is(text) => value == text,
            Test::IsNot(text) => value != text,
            Test::Like(pattern) => pattern.0.is_match(value),
            Test::NotLike(pattern) => !pattern.0.is_match(value),
        }
    }
}

impl Selector {
    /// Whether a series of its name has fitting labels.
    pub fn fits(&self, series: &Series<'_>) -> bool {
        self.matchers.iter().all(|matcher| matcher.fits(series.label(&matcher.label)))
    }
}

/// What is wrong with an expression, where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("character {at}: {problem}; {FORM}")]
pub struct ExpressionError {
    /// The place, in characters from 1.
    pub at: usize,
    /// What is wrong there.
    pub problem: ExpressionProblem,
}

/// What is wrong in an [`ExpressionError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionProblem {
    /// Something else was to come here.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A scale that is zero, infinite or not a number.
    #[error("a scale is a finite number other than 0")]
    Scale,
    /// A pattern that is no regular expression, or one too large.
    #[error("`{0}` is not a usable regular expression")]
    Pattern(String),
    /// A histogram is one selector, scaled at most.
    #[error("a histogram is one name with its labels, scaled at most")]
    NotOneHistogram,
}

impl Expression {
    /// Reads an expression in the form of the module's grammar.
    ///
    /// # Errors
    /// [`ExpressionError`] names the first place that does not fit and the legal form.
    pub fn parse(text: &str) -> Result<Expression, ExpressionError> {
        let mut cursor = Cursor { text, at: 0 };
        let mut terms = Vec::new();
        let mut sign = 1.0;
        loop {
            let mut term = cursor.term()?;
            term.factor *= sign;
            terms.push(term);
            sign = match cursor.peek() {
                None => return Ok(Expression { terms }),
                Some('+') => 1.0,
                Some('-') => -1.0,
                Some(_) => return Err(cursor.expected("`+`, `-` or the end")),
            };
            cursor.skip(1);
        }
    }

    /// Its addends, at least one.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Adds a condition to every selector.
    pub(super) fn restrict(&mut self, matcher: &Matcher) {
        for selector in self.terms.iter_mut().flat_map(|term| &mut term.choices) {
            selector.matchers.push(matcher.clone());
        }
    }
}

/// A histogram on a page, by its name without `_bucket`.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramExpression {
    /// Name and conditions.
    pub selector: Selector,
    /// Seconds in one unit of the bounds: 0.001 for a histogram in milliseconds.
    pub scale: f64,
}

impl HistogramExpression {
    /// Reads `name`, `name{label="value"}` or either with `* scale`.
    ///
    /// # Errors
    /// As [`Expression::parse`]; also when it is more than one selector.
    pub fn parse(text: &str) -> Result<HistogramExpression, ExpressionError> {
        let whole = || ExpressionError { at: 1, problem: ExpressionProblem::NotOneHistogram };
        let mut terms = Expression::parse(text)?.terms;
        let term = terms.pop().filter(|_| terms.is_empty()).ok_or_else(whole)?;
        if term.factor <= 0.0 || term.zero_if_absent {
            return Err(whole());
        }
        match <[Selector; 1]>::try_from(term.choices) {
            Ok([selector]) => Ok(HistogramExpression { selector, scale: term.factor }),
            Err(_) => Err(whole()),
        }
    }
}

/// A place in an expression's text.
struct Cursor<'a> {
    text: &'a str,
    /// Bytes; always on a character boundary.
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next character after white space, which is skipped.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    fn take(&mut self, token: &str) -> bool {
        self.peek();
        let there = self.rest().starts_with(token);
        if there {
            self.skip(token.len());
        }
        there
    }

    fn error(&self, problem: ExpressionProblem) -> ExpressionError {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        ExpressionError { at: before.chars().count() + 1, problem }
    }

    fn expected(&self, what: &'static str) -> ExpressionError {
        self.error(ExpressionProblem::Expected(what))
    }

    /// The longest run of characters that fit, which may be empty.
    fn run(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        self.peek();
        let rest = self.rest();
        let length = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.skip(length);
        rest.get(..length).unwrap_or_default()
    }

    fn term(&mut self) -> Result<Term, ExpressionError> {
        let mut factor = 1.0;
        if self.peek().is_some_and(|c| c.is_ascii_digit() || c == '.') {
            factor = self.scale()?;
            if !self.take("*") {
                return Err(self.expected("`*` after the number"));
            }
        }
        let (choices, zero_if_absent) = self.choices()?;
        if self.take("*") {
            factor *= self.scale()?;
        } else if self.take("/") {
            factor /= self.scale()?;
        }
        if !(factor.is_finite() && factor != 0.0) {
            return Err(self.error(ExpressionProblem::Scale));
        }
        Ok(Term { factor, choices, zero_if_absent })
    }

    fn scale(&mut self) -> Result<f64, ExpressionError> {
        self.peek();
        let start = self.at;
        let digits = self.run(|c| c.is_ascii_alphanumeric() || c == '.');
        // An exponent's sign belongs to the number: `1e-3`.
        let signed = digits.ends_with(['e', 'E']) && self.rest().starts_with(['-', '+']);
        if signed {
            self.skip(1);
            self.run(|c| c.is_ascii_digit());
        }
        let number = self.text.get(start..self.at).unwrap_or_default();
        match number.parse::<f64>() {
            Ok(value) if value.is_finite() && value != 0.0 => Ok(value),
            _ => {
                self.at = start;
                Err(self.error(ExpressionProblem::Scale))
            }
        }
    }

    fn choices(&mut self) -> Result<(Vec<Selector>, bool), ExpressionError> {
        if !self.take("(") {
            return Ok((vec![self.selector()?], false));
        }
        let mut choices = vec![self.selector()?];
        loop {
            if self.take(")") {
                return Ok((choices, false));
            }
            if !self.take("or ") {
                return Err(self.expected("`or` or `)`"));
            }
            if self.take("0") {
                return match self.take(")") {
                    true => Ok((choices, true)),
                    false => Err(self.expected("`)` after `or 0`")),
                };
            }
            choices.push(self.selector()?);
        }
    }

    fn selector(&mut self) -> Result<Selector, ExpressionError> {
        if self.peek().is_none_or(|c| !(c.is_ascii_alphabetic() || c == '_' || c == ':')) {
            return Err(self.expected("a series name"));
        }
        let name = self.run(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':').to_owned();
        let mut matchers = Vec::new();
        if self.take("{") {
            while !self.take("}") {
                matchers.push(self.matcher()?);
                if self.peek() != Some('}') && !self.take(",") {
                    return Err(self.expected("`,` or `}`"));
                }
            }
        }
        Ok(Selector { name, matchers })
    }

    fn matcher(&mut self) -> Result<Matcher, ExpressionError> {
        if self.peek().is_none_or(|c| !(c.is_ascii_alphabetic() || c == '_')) {
            return Err(self.expected("a label name"));
        }
        let label = self.run(|c| c.is_ascii_alphanumeric() || c == '_').to_owned();
        let operator = ["=~", "!~", "!=", "="].into_iter().find(|token| self.take(token));
        let Some(operator) = operator else {
            return Err(self.expected("`=`, `!=`, `=~` or `!~`"));
        };
        self.peek();
        let start = self.at;
        let value = self.quoted()?;
        let pattern = |text: String| match Regex::new(&format!("^(?s:{text})$")) {
            Ok(regex) => Ok(Pattern(regex)),
            Err(_) => {
                let place = Cursor { text: self.text, at: start };
                Err(place.error(ExpressionProblem::Pattern(text)))
            }
        };
        let test = match operator {
            "=" => Test::Is(value),
            "!=" => Test::IsNot(value),
            "=~" => Test::Like(pattern(value)?),
            _ => Test::NotLike(pattern(value)?),
        };
        Ok(Matcher { label, test })
    }

    /// A text in double quotes, where a backslash takes the next character as it is.
    fn quoted(&mut self) -> Result<String, ExpressionError> {
        if !self.take("\"") {
            return Err(self.expected("a value in double quotes"));
        }
        let mut value = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((offset, c)) = chars.next() {
            match c {
                '"' => {
                    self.skip(offset + 1);
                    return Ok(value);
                }
                '\\' => match chars.next() {
                    Some((_, quoted @ ('"' | '\\'))) => value.push(quoted),
                    // `\.` and `\d` belong to a pattern.
                    Some((_, other)) => value.extend(['\\', other]),
                    None => break,
                },
                _ => value.push(c),
            }
        }
        self.at = self.text.len();
        Err(self.expected("a closing double quote"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a text, without the legal form that follows every one.
    fn wrong(text: &str) -> String {
        let error = Expression::parse(text).expect_err(text).to_string();
        let (place, form) = error.split_once("; legal: ").expect("the legal form");
        assert!(form.contains("`name{label="));
        place.to_owned()
    }

    fn factors(text: &str) -> Vec<f64> {
        Expression::parse(text).expect(text).terms().iter().map(|term| term.factor).collect()
    }

    #[test]
    fn signs_and_scales() {
        assert_eq!(factors("a"), [1.0]);
        assert_eq!(factors(" a-b +c "), [1.0, -1.0, 1.0]);
        assert_eq!(factors("2*a - b * 1e-3 + c / 4"), [2.0, -0.001, 0.25]);
        assert_eq!(factors("1e+3 * a"), [1000.0]);
    }

    #[test]
    fn matchers_are_those_of_promql() {
        let text = r#"a:b_c{x="1", y!="q\"\\", z=~"GET|P.*", w!~"\\d+",}"#;
        let expression = Expression::parse(text).expect(text);
        let matchers = &expression.terms()[0].choices[0].matchers;
        let fits = |i: usize, value: &str| matchers[i].fits(value);
        assert!(fits(0, "1") && !fits(0, "11"));
        assert!(fits(1, "") && !fits(1, "q\"\\"));
        assert!(fits(2, "GET") && fits(2, "P\n") && !fits(2, "GETS") && !fits(2, "xP"));
        assert!(fits(3, "a1") && !fits(3, "12"));
    }

    #[test]
    fn choices() {
        let expression = Expression::parse("(a or b{x=\"1\"} or 0)").expect("choices");
        let term = &expression.terms()[0];
        let names: Vec<&str> = term.choices.iter().map(|choice| choice.name.as_str()).collect();
        assert_eq!((names, term.zero_if_absent), (vec!["a", "b"], true));
        assert!(!Expression::parse("(a)").expect("one choice").terms()[0].zero_if_absent);
    }

    #[test]
    fn errors_name_the_place() {
        assert_eq!(wrong(""), "character 1: expected a series name");
        assert_eq!(wrong("a -"), "character 4: expected a series name");
        assert_eq!(wrong("a b"), "character 3: expected `+`, `-` or the end");
        assert_eq!(wrong("a.b"), "character 2: expected `+`, `-` or the end");
        assert_eq!(wrong("3"), "character 2: expected `*` after the number");
        assert_eq!(wrong("a * 0"), "character 5: a scale is a finite number other than 0");
        assert_eq!(wrong("a / 1e999"), "character 5: a scale is a finite number other than 0");
        assert_eq!(wrong("é"), "character 1: expected a series name");
        assert_eq!(wrong("a{x}"), "character 4: expected `=`, `!=`, `=~` or `!~`");
        assert_eq!(wrong("a{x=1}"), "character 5: expected a value in double quotes");
        assert_eq!(wrong("a{x=\"é}"), "character 8: expected a closing double quote");
        assert_eq!(wrong("a{x=\"\" y=\"\"}"), "character 8: expected `,` or `}`");
        assert_eq!(wrong("a{x=~\"(\"}"), "character 6: `(` is not a usable regular expression");
        assert_eq!(wrong("(a or 0"), "character 8: expected `)` after `or 0`");
        assert_eq!(wrong("(a b)"), "character 4: expected `or` or `)`");
    }

    #[test]
    fn a_histogram_is_one_selector() {
        let histogram = HistogramExpression::parse("wait{l=\"x\"} * 0.001").expect("a histogram");
        assert_eq!((histogram.selector.name.as_str(), histogram.scale), ("wait", 0.001));
        for text in ["a + b", "(a or b)", "a - a", "(a or 0)", "a * -1"] {
            assert!(HistogramExpression::parse(text).is_err(), "{text}");
        }
    }
}
