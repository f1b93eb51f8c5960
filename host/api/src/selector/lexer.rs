//! The tokens of the label selector syntax.

/// A token and its text in the selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    pub(super) text: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Identifier,
    In,
    NotIn,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    GreaterThan,
    LessThan,
    Open,
    Close,
    Comma,
    End,
}

/// All tokens of a selector; the last one is [`TokenKind::End`].
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut rest = text;
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let token = next(rest);
        rest = &rest[token.text.len()..];
        tokens.push(token);
        if token.kind == TokenKind::End {
            return tokens;
        }
    }
}

fn next(rest: &str) -> Token<'_> {
    const SYMBOLS: [(&str, TokenKind); 9] = [
        ("==", TokenKind::DoubleEquals),
        ("!=", TokenKind::NotEquals),
        ("=", TokenKind::Equals),
        ("!", TokenKind::Not),
        (">", TokenKind::GreaterThan),
        ("<", TokenKind::LessThan),
        ("(", TokenKind::Open),
        (")", TokenKind::Close),
        (",", TokenKind::Comma),
    ];
    for (symbol, kind) in SYMBOLS {
        if rest.starts_with(symbol) {
            let text = &rest[..symbol.len()];
            return Token { kind, text };
        }
    }
    let end = rest
        .find(|c| {
            matches!(
                c,
                '=' | '!' | '(' | ')' | ',' | '>' | '<' | ' ' | '\t' | '\r' | '\n'
            )
        })
        .unwrap_or(rest.len());
    let text = &rest[..end];
    let kind = match text {
        "" => TokenKind::End,
        "in" => TokenKind::In,
        "notin" => TokenKind::NotIn,
        _ => TokenKind::Identifier,
    };
    Token { kind, text }
}
