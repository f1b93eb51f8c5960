//! The grammar of the label selector syntax:
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = [ "!" ] key | key operator value | key ("in" | "notin") "(" [ value { "," value } ] ")"
//! operator    = "=" | "==" | "!=" | ">" | "<"
//! ```
//!
//! `in` and `notin` are operators only where an operator may stand; elsewhere they are ordinary keys and values.

use super::{
    SelectorError,
    label::{Operator, Requirement},
    lexer::{Token, TokenKind, tokens},
};
use crate::validation::is_label_key;

/// Reads a whole selector.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser {
        tokens: tokens(text),
        at: 0,
    };
    parser.selector().map_err(SelectorError)
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

type Parsed<T> = Result<T, String>;

impl<'a> Parser<'a> {
    /// The next token where an operator may stand.
    fn operator_token(&mut self) -> Token<'a> {
        let token = self.tokens[self.at];
        // the closing token is never passed, so that reading on at the end stays at the end
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// The next token where a key, value or punctuation stands, without taking it.
    fn peek(&self) -> Token<'a> {
        let mut token = self.tokens[self.at];
        if matches!(token.kind, TokenKind::In | TokenKind::NotIn) {
            token.kind = TokenKind::Identifier;
        }
        token
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.operator_token();
        token
    }

    fn selector(&mut self) -> Parsed<Vec<Requirement>> {
        let mut found = Vec::new();
        loop {
            match self.peek() {
                Token {
                    kind: TokenKind::Identifier | TokenKind::Not,
                    ..
                } => {
                    let requirement = self.requirement();
                    found.push(
                        requirement.map_err(|why| format!("unable to parse requirement: {why}"))?,
                    );
                    let token = self.take();
                    match token.kind {
                        TokenKind::End => return Ok(found),
                        TokenKind::Comma => {
                            let next = self.peek();
                            if !matches!(next.kind, TokenKind::Identifier | TokenKind::Not) {
                                return Err(found_instead(next, "identifier after ','"));
                            }
                        }
                        _ => return Err(found_instead(token, "',' or 'end of string'")),
                    }
                }
                Token {
                    kind: TokenKind::End,
                    ..
                } => return Ok(found),
                token => return Err(found_instead(token, "!, identifier, or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Parsed<Requirement> {
        let negated = self.peek().kind == TokenKind::Not;
        if negated {
            self.take();
        }
        let key = self.take();
        if key.kind != TokenKind::Identifier {
            return Err(found_instead(key, "identifier"));
        }
        let messages = is_label_key(key.text);
        if !messages.is_empty() {
            let why = messages.join("; ");
            return Err(format!("<nil>: Invalid value: {:?}: {why}", key.text));
        }
        let ends = matches!(self.peek().kind, TokenKind::End | TokenKind::Comma);
        let (operator, values) = match (negated, ends) {
            (true, _) => (Operator::DoesNotExist, Vec::new()),
            (false, true) => (Operator::Exists, Vec::new()),
            (false, false) => {
                let operator = self.operator()?;
                let values = match operator {
                    Operator::In | Operator::NotIn => self.value_set()?,
                    _ => vec![self.exact_value()?],
                };
                (operator, values)
            }
        };
        Requirement::new(key.text, operator, values).map_err(|error| error.0)
    }

    fn operator(&mut self) -> Parsed<Operator> {
        let token = self.operator_token();
        Ok(match token.kind {
            TokenKind::In => Operator::In,
            TokenKind::NotIn => Operator::NotIn,
            TokenKind::Equals => Operator::Equals,
            TokenKind::DoubleEquals => Operator::DoubleEquals,
            TokenKind::NotEquals => Operator::NotEquals,
            TokenKind::GreaterThan => Operator::GreaterThan,
            TokenKind::LessThan => Operator::LessThan,
            _ => return Err(found_instead(token, "in, notin, =, ==, !=, gt, lt")),
        })
    }

    fn exact_value(&mut self) -> Parsed<String> {
        match self.peek().kind {
            TokenKind::End | TokenKind::Comma => return Ok(String::new()),
            _ => {}
        }
        let token = self.take();
        match token.kind {
            TokenKind::Identifier => Ok(token.text.to_owned()),
            _ => Err(found_instead(token, "identifier")),
        }
    }

    /// A set in parentheses. Nothing between two commas, or between a comma and a parenthesis, is the empty value.
    fn value_set(&mut self) -> Parsed<Vec<String>> {
        let open = self.take();
        if open.kind != TokenKind::Open {
            return Err(format!("found '{}' expected: '('", open.text));
        }
        let mut values = Vec::new();
        loop {
            let token = self.take();
            match token.kind {
                TokenKind::Identifier => {
                    values.push(token.text.to_owned());
                    let next = self.take();
                    match next.kind {
                        TokenKind::Comma if self.peek().kind == TokenKind::Close => {
                            values.push(String::new());
                            self.take();
                            break;
                        }
                        TokenKind::Comma => {}
                        TokenKind::Close => break,
                        _ => return Err(found_instead(next, "',' or ')'")),
                    }
                }
                TokenKind::Comma => {
                    values.push(String::new());
                    if self.peek().kind == TokenKind::Close {
                        self.take();
                        break;
                    }
                }
                TokenKind::Close if values.is_empty() => {
                    values.push(String::new());
                    break;
                }
                _ if values.is_empty() => {
                    return Err(found_instead(token, "',', ')' or identifier"));
                }
                _ => return Err(found_instead(token, "',', or identifier")),
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}

fn found_instead(token: Token<'_>, expected: &str) -> String {
    format!("found '{}', expected: {expected}", token.text)
}
