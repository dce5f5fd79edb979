//! The paths that code names, in `use` declarations and in place.

/// A path such as `crate::time::Tick`; a glob's last part is `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Where its last part stands, counted from 1.
    pub(crate) line: usize,
    /// What stands between the colons.
    pub(crate) parts: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Colons,
    Other(char),
}

/// Every path in `code`, groups spelt out; a lone word is a path of one part.
pub(crate) fn paths(code: &str) -> Vec<Named> {
    let tokens = tokens(code);
    let mut named = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at].1 {
            Token::Word(_) => at = path(&tokens, at, Vec::new(), &mut named),
            _ => at += 1,
        }
    }
    named
}

fn tokens(code: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\n' {
            line += 1;
        } else if c.is_alphanumeric() || c == '_' {
            let mut word = String::from(c);
            while let Some(c) = chars.next_if(|&c| c.is_alphanumeric() || c == '_') {
                word.push(c);
            }
            tokens.push((line, Token::Word(word)));
        } else if c == ':' && chars.next_if_eq(&':').is_some() {
            tokens.push((line, Token::Colons));
        } else if !c.is_whitespace() {
            tokens.push((line, Token::Other(c)));
        }
    }
    tokens
}

/// Reads a path that goes on with the token at `at`; answers where to read on.
fn path(
    tokens: &[(usize, Token)],
    mut at: usize,
    mut parts: Vec<String>,
    named: &mut Vec<Named>,
) -> usize {
    while let Some((line, token)) = tokens.get(at) {
        match token {
            Token::Word(word) => parts.push(word.clone()),
            Token::Other('*') => parts.push("*".to_owned()),
            Token::Other('{') => return group(tokens, at + 1, &parts, named),
            _ => return at,
        }
        at += 1;
        let goes_on = tokens.get(at).is_some_and(|(_, next)| *next == Token::Colons);
        let is_path = matches!(
            tokens.get(at + 1),
            Some((_, Token::Word(_) | Token::Other('{') | Token::Other('*')))
        );
        if !(goes_on && is_path) {
            named.push(Named { line: *line, parts });
            return at;
        }
        at += 1;
    }
    at
}

/// Reads the paths of a `{group}` behind `prefix`.
fn group(
    tokens: &[(usize, Token)],
    mut at: usize,
    prefix: &[String],
    named: &mut Vec<Named>,
) -> usize {
    while let Some((_, token)) = tokens.get(at) {
        match token {
            Token::Other('}') => return at + 1,
            Token::Word(word) if word == "as" => at += 2,
            Token::Word(_) | Token::Other('*') => at = path(tokens, at, prefix.to_vec(), named),
            _ => at += 1,
        }
    }
    at
}

#[test]
fn groups_globs_and_paths_in_place_are_read() {
    let code = "use crate::{a::{B, self as c, d::*}, e};\nlet x = crate::f::<T>::g(h, &i::J);";
    let all: Vec<String> = paths(code).iter().map(|named| named.parts.join("::")).collect();
    for path in ["crate::a::B", "crate::a::self", "crate::a::d::*", "crate::e", "crate::f"] {
        assert!(all.contains(&path.to_owned()), "{path} in {all:?}");
    }
    assert!(all.contains(&"i::J".to_owned()) && !all.contains(&"c".to_owned()), "{all:?}");
    assert_eq!(paths(code).iter().find(|named| named.parts == ["i", "J"]).unwrap().line, 2);
}
