//! Marks in a document, and what stands between them:
//!
//! ```text
//! <!-- table: NAME -->
//! | the table, | drawn anew |
//! <!-- end -->
//!
//! It takes <!-- = cpu cancel-heavy 1 tickless -->36.3<!-- end --> ns.
//! ```

const OPEN: &str = "<!-- ";
const CLOSE: &str = " -->";
const END: &str = "<!-- end -->";

/// The text with everything between marks drawn anew. An error begins with its line.
pub(super) fn fill(
    text: &str,
    table: &dyn Fn(&str) -> Result<String, String>,
    quote: &dyn Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((mark, from)) = next_mark(rest) {
        let line = 1 + text[..text.len() - rest[from..].len()].matches('\n').count();
        let wrong = |what: String| format!("{line}: {what}");
        let body = match mark {
            Mark::Table(name) => format!("\n{}", table(name).map_err(wrong)?),
            Mark::Quote(words) => quote(words).map_err(wrong)?,
        };
        let (before, after) = rest.split_at(from);
        let length = after.find(END).ok_or_else(|| wrong(format!("no {END}")))?;
        if after[..length].contains(OPEN) {
            return Err(wrong(format!("another mark before {END}")));
        }
        filled.push_str(before);
        filled.push_str(&body);
        filled.push_str(END);
        rest = &after[length + END.len()..];
    }
    filled.push_str(rest);
    Ok(filled)
}

enum Mark<'a> {
    Table(&'a str),
    Quote(&'a str),
}

/// The next mark that something stands behind, and where it is over.
fn next_mark(text: &str) -> Option<(Mark<'_>, usize)> {
    let mut from = 0;
    while let Some(at) = text[from..].find(OPEN) {
        let inside = from + at + OPEN.len();
        let length = text[inside..].find(CLOSE)?;
        let words = &text[inside..inside + length];
        from = inside + length + CLOSE.len();
        if let Some(name) = words.strip_prefix("table: ") {
            return Some((Mark::Table(name), from));
        }
        if let Some(words) = words.strip_prefix("= ") {
            return Some((Mark::Quote(words), from));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let table = |name: &str| match name {
            "t" => Ok("| 1 |\n".to_owned()),
            name => Err(format!("no {name}")),
        };
        fill(text, &table, &|words| Ok(words.to_uppercase()))
    }

    #[test]
    fn what_stands_between_marks_is_replaced_and_nothing_else() {
        let text = "a\n<!-- table: t -->\n| old |\n<!-- end -->\n<!-- note -->\n\
                    <!-- = x y -->9<!-- end --> b";
        let new = "a\n<!-- table: t -->\n| 1 |\n<!-- end -->\n<!-- note -->\n\
                   <!-- = x y -->X Y<!-- end --> b";
        assert_eq!(filled(text).unwrap(), new);
        assert_eq!(filled(new).unwrap(), new);
        assert_eq!(filled("none").unwrap(), "none");
    }

    #[test]
    fn a_mark_without_an_end_or_a_name_is_refused_with_its_line() {
        assert_eq!(filled("\n<!-- table: u -->\n<!-- end -->").unwrap_err(), "2: no u");
        assert_eq!(filled("<!-- = x -->1").unwrap_err(), "1: no <!-- end -->");
        let nested = filled("<!-- = x -->1 <!-- = y -->2<!-- end -->").unwrap_err();
        assert_eq!(nested, "1: another mark before <!-- end -->");
    }
}
