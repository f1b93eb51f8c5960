//! Reading quantities:
//!
//! ```text
//! quantity = [ "+" | "-" ] digits [ "." [ digits ] ] [ suffix ]      (digits before or after the point may be missing)
//! suffix   = "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" … "Ei" | ("e" | "E") [ sign ] digits
//! ```

use super::{Format, NANO, Quantity};

/// Why a text is no quantity; the words are those clients see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The parts of the text.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point without leading zeros.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

/// What a suffix means.
enum Scale {
    Decimal(i32),
    /// A power of two.
    Binary(u32),
    Exponent(i32),
}

pub(super) fn quantity(text: &str) -> Result<Quantity, QuantityError> {
    let parts = split(text)?;
    let scale = scale(parts.suffix)?;
    value(&parts, &scale)
}

pub(super) fn canonical(text: &str) -> Result<String, QuantityError> {
    let parts = split(text)?;
    let scale = scale(parts.suffix)?;
    let value = value(&parts, &scale)?;
    match is_canonical_enough(&parts, &scale) {
        true => Ok(text.to_owned()),
        false => Ok(value.to_string()),
    }
}

/// Whether upstream keeps the text as it came: its short cut for amounts that fit into 64 bits takes them for canonical
/// without looking at signs, leading zeros, fractions of exactly three digits, or `E` for `e`.
fn is_canonical_enough(parts: &Parts<'_>, scale: &Scale) -> bool {
    let whole = if parts.whole.is_empty() {
        "0"
    } else {
        parts.whole
    };
    let digits = format!("{whole}{}", parts.fraction);
    match scale {
        Scale::Binary(power) => {
            let room = 14 - whole.len() as i64 - i64::from(power * 3 / 10);
            let odd = digits.parse::<i64>().is_ok_and(|value| value & 7 != 0);
            parts.fraction.is_empty() && room >= 0 && odd
        }
        Scale::Decimal(exponent) | Scale::Exponent(exponent) => {
            let exponent = i64::from(*exponent) - parts.fraction.len() as i64;
            digits.len() <= 18
                && exponent >= i64::from(NANO)
                && exponent % 3 == 0
                && !digits.ends_with("000")
                && !digits.starts_with('0')
        }
    }
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let (negative, unsigned) = match text.as_bytes().first() {
        None => return Err(QuantityError::Format),
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
    };
    let number_end = unsigned
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(unsigned.len());
    let (whole, rest) = unsigned.split_at(number_end);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        None => ("", rest),
        Some(rest) => {
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            rest.split_at(end)
        }
    };
    let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err(QuantityError::Numeric);
    }
    Ok(Parts {
        negative,
        whole: whole.trim_start_matches('0'),
        fraction,
        suffix,
    })
}

fn scale(suffix: &str) -> Result<Scale, QuantityError> {
    Ok(match suffix {
        "n" => Scale::Decimal(-9),
        "u" => Scale::Decimal(-6),
        "m" => Scale::Decimal(-3),
        "" => Scale::Decimal(0),
        "k" => Scale::Decimal(3),
        "M" => Scale::Decimal(6),
        "G" => Scale::Decimal(9),
        "T" => Scale::Decimal(12),
        "P" => Scale::Decimal(15),
        "E" => Scale::Decimal(18),
        "Ki" => Scale::Binary(10),
        "Mi" => Scale::Binary(20),
        "Gi" => Scale::Binary(30),
        "Ti" => Scale::Binary(40),
        "Pi" => Scale::Binary(50),
        "Ei" => Scale::Binary(60),
        other => {
            let digits = other.strip_prefix(['e', 'E']);
            let exponent = digits.and_then(|digits| digits.parse().ok());
            Scale::Exponent(exponent.ok_or(QuantityError::Suffix)?)
        }
    })
}

fn value(parts: &Parts<'_>, scale: &Scale) -> Result<Quantity, QuantityError> {
    let (mantissa, dropped) = mantissa(parts)?;
    let point = i32::try_from(parts.fraction.len()).map_err(|_| QuantityError::Numeric)?;
    let exponent = dropped - point;
    let signed = |size: i128| if parts.negative { -size } else { size };
    Ok(match *scale {
        Scale::Decimal(power) => {
            Quantity::new(signed(mantissa), exponent + power, Format::DecimalSi)
        }
        Scale::Exponent(power) => Quantity::new(
            signed(mantissa),
            exponent.saturating_add(power),
            Format::DecimalExponent,
        ),
        Scale::Binary(power) => binary(mantissa, exponent, power, signed),
    })
}

/// All digits as one number, and how many had to be left off at the right (rounding up).
fn mantissa(parts: &Parts<'_>) -> Result<(i128, i32), QuantityError> {
    let mut mantissa: i128 = 0;
    let mut dropped = 0;
    let mut lost = false;
    for digit in parts.whole.bytes().chain(parts.fraction.bytes()) {
        let digit = i128::from(digit - b'0');
        let next = match dropped {
            0 => mantissa.checked_mul(10).and_then(|m| m.checked_add(digit)),
            _ => None,
        };
        match next {
            Some(next) => mantissa = next,
            None => {
                dropped += 1;
                lost |= digit != 0;
            }
        }
    }
    if lost && parts.whole.len() > 38 {
        return Err(QuantityError::Numeric); // a whole number that cannot be kept exactly
    }
    Ok((mantissa.saturating_add(i128::from(lost)), dropped))
}

/// Multiplies by a power of two; amounts beyond 64 bits are capped, those below one are written in decimals.
fn binary(
    mut mantissa: i128,
    mut exponent: i32,
    power: u32,
    signed: impl Fn(i128) -> i128,
) -> Quantity {
    let factor = 1i128 << power;
    let product = loop {
        match mantissa.checked_mul(factor) {
            Some(product) => break product,
            None => {
                mantissa = mantissa / 10 + i128::from(mantissa % 10 != 0);
                exponent += 1;
            }
        }
    };
    let max = Quantity::from_value(i64::MAX, Format::BinarySi);
    let size = Quantity::new(product, exponent, Format::BinarySi).min(max);
    let one = Quantity::from_value(1, Format::BinarySi);
    Quantity {
        mantissa: signed(size.mantissa),
        exponent: size.exponent,
        format: match size < one && !size.is_zero() {
            true => Format::DecimalSi,
            false => Format::BinarySi,
        },
    }
}
